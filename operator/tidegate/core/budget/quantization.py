"""How a checkpoint stores its weights: bytes per element, and what stays unquantised."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.budget import config_keys
from tidegate.errors import Refused

# Bytes per element of what the engine quantises itself while it loads a checkpoint of 16 bits.
_BY_FLAG = {
    "fp8": 1.0,
    "fp8_per_tensor": 1.0,
    "fp8_per_block": 1.0,
    "bitsandbytes": 0.5 + 4 / 64,
}
# Methods that need a checkpoint that was quantised before: the engine reads their settings from it.
_STORED = (
    *("awq", "awq_marlin", "auto_awq", "gptq", "gptq_marlin", "auto_gptq", "moe_wna16"),
    *("auto-round", "auto_round", "inc", "compressed-tensors", "fbgemm_fp8", "gguf"),
    *("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "quark"),
)
# Names for kernels of one format: a checkpoint of the first takes any of them as --quantization.
_SAME_FORMAT = {
    "awq": ("awq_marlin", "auto_awq", "cpu_awq", "moe_wna16"),
    "gptq": ("gptq_marlin", "auto_gptq", "moe_wna16"),
    "auto-round": ("auto_round", "inc"),
    "mxfp4": ("gpt_oss_mxfp4",),
    "fp8": ("deepseek_v4_fp8",),
}
_SCALE_BYTES = 2  # of a group, where nothing else is told
_MXFP4_BYTES = 0.5 + 1 / 32
# Routed experts by `expert_dtype`, beside linear layers that are stored in another way.
_EXPERT_BYTES = {"fp4": _MXFP4_BYTES, "fp8": 1.0}
_ALGORITHMS = {"FP8": 1.0, "NVFP4": 0.5 + 1 / 16}
_LISTED = 8  # more names than this are those of every layer
_NUMBER = re.compile(r"\.\d+[.*]")
_WHOLE_ATTENTION = re.compile(r"^re:(?!.*indexer)|attn(\.?\*)?$|[qkvo]_(a_|b_)?proj|qkv")
_WHOLE_DENSE = re.compile(r"^re:.*mlp.*_proj|\.mlp\*?$|\.mlp\.(gate|up|down|gate_up)_proj$")
_IGNORED = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")
# modelopt's names for the type of the KV cache, as the engine spells them.
_KV_ALGORITHMS = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


@dataclass(frozen=True)
class Quantization:
    """Weights of linear layers take `bytes_per_element`, scales included; embeddings do not.

    `bytes_per_element` is None for a method whose sizes are not known, and `method` is empty where
    the config says that experts are quantised and not how the rest is. Routed experts may have a
    size of their own, `expert_bytes_per_element`, and so may what mixes tokens.
    `quantizes_dense` is of feed-forward blocks that are no routed experts.
    `kv_cache_dtype` is what the checkpoint asks of the engine's `auto`.
    """

    method: str
    bytes_per_element: float | None
    expert_bytes_per_element: float | None = None
    attention_bytes_per_element: float | None = None
    quantizes_attention: bool = True
    quantizes_dense: bool = True
    experts_only: bool = False
    kv_cache_dtype: str | None = None


def read(config: Mapping[str, Any], text: Mapping[str, Any]) -> Quantization | None:
    """Return how the checkpoint is quantised, or None.

    Raises:
        Refused: the `quantization_config` makes no sense.
    """
    found = None
    for part in (config, text):
        key = config_keys.present(part, ("quantization_config", "compression_config"))
        if key is not None and found is None:
            found = config_keys.mapping(part, key)
    expert_bytes = _EXPERT_BYTES.get(str(text.get("expert_dtype")))
    if not found:
        return None if expert_bytes is None else Quantization("", None)
    unnamed = "modelopt" if found.get("quant_algo") else ""  # it keeps its name in a file beside
    method = str(found.get("quant_method") or unnamed).lower()
    of_layers = _of_layers(found)
    largest = max(of_layers.values(), default=None)
    return Quantization(
        method=method,
        bytes_per_element=_bytes_per_element(method, found) or of_layers.get("dense", largest),
        expert_bytes_per_element=expert_bytes or of_layers.get("experts"),
        attention_bytes_per_element=of_layers.get("attention"),
        quantizes_attention=not _skips_attention(found),
        quantizes_dense=not _skips_dense(found),
        experts_only=method in ("mxfp4", "gpt_oss_mxfp4", "experts_int8"),
        kv_cache_dtype=_kv_cache_dtype(method, found),
    )


def by_flag(method: str) -> Quantization | None:
    """Return what --quantization alone tells of the weights; None for an unknown method."""
    size = _BY_FLAG.get(method)
    return None if size is None else Quantization(method, size)


def require_possible(own: Quantization | None, flag: str | None, field: str) -> None:
    """Check --quantization beside the checkpoint's `own`, as the engine does at its start.

    Raises:
        Refused: QUANTIZATION_UNSUPPORTED, naming `field`.
    """
    stored_as = own.method if own is not None else ""
    if flag is None or (stored_as and _is_same_format(stored_as, flag)):
        return
    if stored_as:
        raise Refused(
            Reason.QUANTIZATION_UNSUPPORTED,
            f"quantization {flag} is not what the checkpoint's quantization_config says "
            f"({stored_as}), and the engine ends at its start; remove it",
            field,
        )
    if flag in _STORED:
        raise Refused(
            Reason.QUANTIZATION_UNSUPPORTED,
            f"quantization {flag} needs a checkpoint that is stored so, and this one's config.json "
            f"has no quantization_config; name such a checkpoint, remove it, or use one of "
            f"{', '.join(_BY_FLAG)}, which quantise while loading",
            field,
        )


def _is_same_format(stored_as: str, flag: str) -> bool:
    if stored_as.startswith("modelopt"):
        return flag.startswith("modelopt")
    names = next(
        ((name, *more) for name, more in _SAME_FORMAT.items() if stored_as in (name, *more)),
        (stored_as,),
    )
    return flag in names


def _bytes_per_element(method: str, found: Mapping[str, Any]) -> float | None:
    if method in ("fp8", "fbgemm_fp8"):
        return 1.0 + 4 / 128**2 if found.get("weight_block_size") else 1.0
    if method in ("mxfp4", "gpt_oss_mxfp4"):
        return _MXFP4_BYTES
    if method == "bitsandbytes":
        return 1.0 if found.get("load_in_8bit") else 0.5 + 4 / 64
    if method.startswith("modelopt"):
        algorithm = str(found.get("quant_algo", "")).upper()
        return {"FP8": 1.0, "NVFP4": 0.5 + 1 / 16}.get(algorithm)
    if method == "compressed-tensors":
        return _compressed_tensors(found)
    if method in ("awq", "gptq", "auto-round", "awq_marlin", "gptq_marlin"):
        return _grouped(found.get("bits", 4), found.get("group_size", 128), zero_points=True)
    return None


def _compressed_tensors(found: Mapping[str, Any]) -> float | None:
    groups = found.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        return None
    sizes = []
    for group in groups.values():
        weights = group.get("weights") if isinstance(group, Mapping) else None
        if not isinstance(weights, Mapping):
            return None
        scale_bytes = 1 if "uint8" in str(weights.get("scale_dtype")) else _SCALE_BYTES
        bits, group_size = weights.get("num_bits"), weights.get("group_size")
        sizes.append(_grouped(bits, group_size, False, scale_bytes))
    return None if None in sizes else max(size for size in sizes if size is not None)


def _grouped(
    bits: Any, group_size: Any, zero_points: bool, scale_bytes: int = _SCALE_BYTES
) -> float | None:
    """Return bytes per element with a scale, and at times a zero point, for each group."""
    if isinstance(bits, bool) or not isinstance(bits, int) or not 2 <= bits <= 16:
        return None
    size = bits / 8
    if isinstance(group_size, int) and not isinstance(group_size, bool) and group_size > 0:
        size += (scale_bytes + (bits / 8 if zero_points else 0)) / group_size
    return size


def _skips_attention(found: Mapping[str, Any]) -> bool:
    """Tell whether the lists of modules left alone name the attention projections as a whole."""
    return _names_all(found, _is_attention)


def _skips_dense(found: Mapping[str, Any]) -> bool:
    """Tell whether they name feed-forward blocks that are no routed experts."""
    return _names_all(found, _is_dense)


def _names_all(found: Mapping[str, Any], belongs: Callable[[str], bool]) -> bool:
    """Tell whether names that belong are left alone: by a pattern, or listed layer by layer."""
    names = [
        name
        for key in _IGNORED
        if isinstance(found.get(key), list)
        for name in found[key]
        if isinstance(name, str) and belongs(name)
    ]
    has_pattern = any(name.startswith("re:") or not _NUMBER.search(name) for name in names)
    return has_pattern or len(names) > _LISTED


def _is_attention(name: str) -> bool:
    return "attn" in name and bool(_WHOLE_ATTENTION.search(name))


def _is_dense(name: str) -> bool:
    return "shared_expert" in name or bool(_WHOLE_DENSE.search(name))


def _of_layers(found: Mapping[str, Any]) -> dict[str, float]:
    """Return bytes per element by what a module belongs to, where each is listed with its type."""
    listed = found.get("quantized_layers")
    sizes: dict[str, float] = {}
    for name, described in listed.items() if isinstance(listed, Mapping) else ():
        algorithm = str(described.get("quant_algo", "")) if isinstance(described, Mapping) else ""
        size = next((one for end, one in _ALGORITHMS.items() if algorithm.endswith(end)), None)
        if size is not None:
            belongs = "dense"
            if "experts" in str(name) and "shared_expert" not in str(name):
                belongs = "experts"
            elif "attn" in str(name) or "mixer" in str(name):
                belongs = "attention"
            sizes[belongs] = max(size, sizes.get(belongs, 0))
    return sizes


def _kv_cache_dtype(method: str, found: Mapping[str, Any]) -> str | None:
    """Return the KV dtype that the engine's `auto` takes from a quantised checkpoint."""
    if method == "compressed-tensors":
        return "fp8" if found.get("kv_cache_scheme") else None
    if not method.startswith("modelopt"):
        return None
    inner = found.get("quantization")
    parts = [part for part in (inner, found) if isinstance(part, Mapping)]
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for part in parts:
            if part.get(key):
                return _kv_algorithm(part[key])
    return None


def _kv_algorithm(algorithm: Any) -> str | None:
    if isinstance(algorithm, Mapping):
        if algorithm.get("type") != "float":
            return None
        if algorithm.get("num_bits") == 8 and algorithm.get("dynamic") is False:
            return "fp8_e4m3"
        return "nvfp4" if algorithm.get("num_bits") == 4 else None
    return _KV_ALGORITHMS.get(str(algorithm).lower())
