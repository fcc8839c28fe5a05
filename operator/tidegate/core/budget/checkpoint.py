"""What a checkpoint's safetensors files tell: its bytes, by layer and by how they are divided.

Two sources, in JSON: the header of each file (names, dtypes, shapes and offsets of its tensors),
and the index of them all (the names, and the total). A summary of either stands beside the keys of
the model's config.json, under one key of our own, so that all that is known of a model is in one
place and a plan, its digest and its checks see the same.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget import config_keys, tensor_roles
from tidegate.core.budget.tensor_roles import Part, Place, Role
from tidegate.errors import Refused

KEY = "tidegate.io/checkpoint"
"""Beside the keys of config.json: what `summary` returns."""
FIELD = "spec.model.weights.indexRef"
_MOST_TENSORS = 2_000_000
_METADATA = "__metadata__"
_LARGEST = 2**50
# Bits of an element; the engine takes those of the first line in the model's dtype.
_FLOAT_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16}
_OTHER_BITS = {
    **dict.fromkeys(("I64", "U64", "C64"), 64),
    **dict.fromkeys(("I32", "U32"), 32),
    **dict.fromkeys(("I16", "U16"), 16),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
# Kept as they are stored: scales and zero points, and what recurrent layers and routers add up.
_AS_STORED = config_keys.names("scale scales zeros zero absmax amax")
_AS_STORED_NAMES = config_keys.names("A_log D dt_bias e_score_correction_bias")


@dataclass(frozen=True)
class Tensors:
    """All tensors of one place: elements that take the model's dtype, and bytes kept as stored.

    `matrix_elements`, of the elements, are what --quantization may make smaller while it loads.
    """

    place: Place
    elements: int
    matrix_elements: int
    stored_bytes: int


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: all its bytes, and its tensors where headers told them.

    From an index `tensors` is empty, and the names tell the rest: whether it `has_draft` layers,
    a head (`has_head`) beside its embeddings, and a tower (`has_tower`) of images or sound.
    """

    total_bytes: int
    has_draft: bool
    has_head: bool
    has_tower: bool
    tensors: tuple[Tensors, ...] = ()


def summary(text: str, where: str) -> dict[str, Any]:
    """Return what an index or the headers tell, as JSON; `where` tells the reader which is wrong.

    The headers of several files are one object with the tensors of all.

    Raises:
        Refused: MODEL_CONFIG_INVALID names what is wrong with it.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(where, f"is no JSON: {error}"[:300])
    if not isinstance(found, dict):
        _refuse(where, "is JSON, but no object")
    if "weight_map" in found:
        return _of_index(found, where)
    return of_headers(found, where)


def of_headers(headers: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return what the tensors of all headers tell, as JSON.

    Raises:
        Refused: a tensor is not described as safetensors describes it, or there is none.
    """
    sums: dict[Place, list[int]] = defaultdict(lambda: [0, 0, 0])
    names = [name for name in headers if name != _METADATA]
    if not names:
        _refuse(where, "has neither a weight_map (an index) nor tensors (a header)")
    total_bytes = 0
    for name in names:
        one = _tensor(name, headers[name], where)
        total_bytes += one.size_bytes
        counted = sums[tensor_roles.of(name)]
        if one.is_float and not _is_kept(name):
            counted[0] += one.elements
            counted[1] += one.elements if one.dimensions > 1 else 0
        else:
            counted[2] += one.size_bytes
    parts = [[place.within, place.role, *counted] for place, counted in sums.items()]
    return {**_names(names), "totalBytes": total_bytes, "tensors": parts}


def _of_index(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    files = found["weight_map"]
    if not isinstance(files, dict) or not files:
        _refuse(where, "weight_map must map the names of tensors to files")
    if len(files) > _MOST_TENSORS:
        _refuse(where, f"weight_map has more than {_MOST_TENSORS} tensors")
    metadata = found.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():  # some writers count in floats
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 1 <= total <= _LARGEST:
        _refuse(where, f"metadata.total_size must be the bytes of all tensors, not {total!r}"[:200])
    return {**_names(list(files)), "totalBytes": total, "tensors": []}


def _names(names: list[str]) -> dict[str, Any]:
    places = {tensor_roles.of(name) for name in names}
    layers = {place.within for place in places if isinstance(place.within, int)}
    return {
        "layers": sorted(layers),
        "hasDraft": any(place.within is Part.DRAFT for place in places),
        "hasHead": Place(Part.OUTER, Role.HEAD) in places,
        "hasTower": any(place.within is Part.TOWER for place in places),
    }


@dataclass(frozen=True)
class _Tensor:
    elements: int
    dimensions: int
    size_bytes: int
    is_float: bool


def _tensor(name: str, described: Any, where: str) -> _Tensor:
    """Return one entry of a header, whose three keys must agree with each other."""
    if not isinstance(described, Mapping):
        _refuse(where, f"{name[:100]} must be an object with dtype, shape and data_offsets")
    dtype, sizes = described.get("dtype"), described.get("shape")
    bits = {**_FLOAT_BITS, **_OTHER_BITS}.get(dtype) if isinstance(dtype, str) else None
    if bits is None:
        _refuse(where, f"{name[:100]} has the dtype {dtype!r:.40}, which is not known")
    if not isinstance(sizes, list) or not all(type(one) is int and one >= 0 for one in sizes):
        _refuse(where, f"{name[:100]} has no sensible shape: {sizes!r:.60}")
    elements = math.prod(sizes)
    offsets = described.get("data_offsets")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(one) is int for one in offsets)
        or not 0 <= offsets[0] <= offsets[1] <= _LARGEST
    ):
        _refuse(where, f"{name[:100]} has no sensible data_offsets: {offsets!r:.60}")
    size_bytes = offsets[1] - offsets[0]
    if size_bytes * 8 != elements * bits:
        _refuse(
            where,
            f"{name[:100]} has {elements} elements of {dtype} and {size_bytes} bytes of data; the "
            "file is damaged",
        )
    return _Tensor(elements, len(sizes), size_bytes, dtype in _FLOAT_BITS)


def _is_kept(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last in _AS_STORED_NAMES or bool(_AS_STORED.intersection(last.split("_")))


def read(config: Mapping[str, Any], layers: int, needed: Collection[int]) -> Checkpoint | None:
    """Return the checkpoint of a model with so many layers, None where none is given.

    `needed` are the indices of layers that have weights.

    Raises:
        Refused: it is another model's, or lacks some of its files.
    """
    told = config_keys.mapping(config, KEY)
    if told is None:
        return None
    try:
        found, there = _checkpoint(told, layers), {_count(one) for one in told["layers"]}
    except (KeyError, TypeError, ValueError) as error:
        config_keys.invalid(KEY, f"is no summary of a checkpoint: {error}"[:200])
    missing = sorted(set(needed) - there)
    if missing:
        raise Refused(
            Reason.MODEL_CONFIG_INVALID,
            f"the checkpoint's index or headers lack {len(missing)} of the {layers} layers of "
            f"config.json, layer {missing[0]} first: it is another model's, or some of its files "
            "are missing; give them all",
            FIELD,
        )
    return found


def _checkpoint(told: Mapping[str, Any], layers: int) -> Checkpoint:
    tensors = []
    for within, role, *counts in told["tensors"]:
        elements, matrix_elements, stored_bytes = (_count(one) for one in counts)
        place = Place(_within(within, layers), Role(role))
        tensors.append(Tensors(place, elements, matrix_elements, stored_bytes))
    beyond = any(_count(one) >= layers for one in told["layers"])
    return Checkpoint(
        _count(told["totalBytes"]),
        bool(told["hasDraft"]) or beyond,
        bool(told["hasHead"]),
        bool(told["hasTower"]),
        tuple(tensors),
    )


def _within(told: Any, layers: int) -> int | Part:
    """Return where tensors belong; layers behind the last of the model draft for it."""
    if isinstance(told, str):
        return Part(told)
    return _count(told) if told < layers else Part.DRAFT


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"{value!r:.40} is no count")
    return value


def _refuse(where: str, problem: str) -> NoReturn:
    raise Refused(Reason.MODEL_CONFIG_INVALID, f"{where}: {problem}", FIELD)
