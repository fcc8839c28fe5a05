"""`--weights-index`: what a checkpoint's own files tell of its weights; only headers are read."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tidegate.cli.inputs import files
from tidegate.core import model_config
from tidegate.core.budget import checkpoint
from tidegate.errors import Invalid, Problem

_OPTION = "--weights-index"
_SUFFIX = ".safetensors"
_INDEX = "model.safetensors.index.json"
_LENGTH_BYTES = 8
_MOST_FILES = 2_000
_METADATA = "__metadata__"


def added(config: Mapping[str, Any], path: str | None) -> Mapping[str, Any]:
    """Return a model's config with what an index, a safetensors file or a folder of them tells.

    Raises:
        Invalid: A file cannot be read, or is no safetensors file.
        Refused: What it holds makes no sense, or the checkpoint is another model's.
    """
    if path is None:
        return config
    where = f"{_OPTION} {path}"
    if Path(path).is_dir():
        told = checkpoint.of_headers(_of_folder(Path(path)), where)
        return {**config, checkpoint.KEY: told}
    if path.endswith(_SUFFIX):
        return {**config, checkpoint.KEY: checkpoint.of_headers(_header(path), where)}
    return model_config.with_checkpoint(config, files.read(path, _OPTION), where)


def _of_folder(folder: Path) -> dict[str, Any]:
    """Return the tensors of all files of a folder; those of its index, where it has one.

    Some folders hold the same weights twice, in files of another layout that no index names.
    """
    paths = _named_by_index(folder) or sorted(folder.glob(f"*{_SUFFIX}"))
    if not paths:
        _refuse(str(folder), f"holds no {_SUFFIX} file")
    if len(paths) > _MOST_FILES:
        _refuse(str(folder), f"holds more than {_MOST_FILES} {_SUFFIX} files")
    tensors: dict[str, Any] = {}
    for path in paths:
        header = _header(str(path))
        header.pop(_METADATA, None)
        twice = next((name for name in header if name in tensors), None)
        if twice is not None:
            _refuse(
                str(path),
                f"has the tensor {twice[:100]} that another file of the folder has too; give the "
                "files of one checkpoint",
            )
        tensors |= header
    return tensors


def _named_by_index(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.is_file():
        return []
    try:
        named = sorted(set(json.loads(files.read(str(index), _OPTION))["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid([Problem(_OPTION, f"{index}: has no sensible weight_map")]) from error
    if not all(isinstance(name, str) and Path(name).name == name for name in named):
        _refuse(str(index), "names files outside of its folder")
    return [folder / name for name in named]


def _header(path: str) -> dict[str, Any]:
    """Return a safetensors file's header: its length in 8 bytes, then JSON; no data is read."""
    with files.opened(path, _OPTION) as stream:
        try:
            size = os.fstat(stream.fileno()).st_size
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            room = size - _LENGTH_BYTES if is_file else files.LARGEST_BYTES
            if not 2 <= length <= min(room, files.LARGEST_BYTES):
                _refuse(path, f"is no safetensors file: its header would have {length} bytes")
            content = stream.read(length)
        except OSError as error:
            _refuse(path, f"cannot be read: {error.strerror}")
    try:
        header = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Invalid(
            [Problem(_OPTION, f"{path}: its header is no JSON: {error}"[:300])]
        ) from error
    if not isinstance(header, dict):
        _refuse(path, "its header is JSON, but no object")
    if is_file:
        _require_whole(path, header, size - _LENGTH_BYTES - length)
    return header


def _require_whole(path: str, header: Mapping[str, Any], data_bytes: int) -> None:
    """Refuse a file that was cut off: its data must reach as far as its tensors do."""
    ends = [
        tensor["data_offsets"][1]
        for name, tensor in header.items()
        if name != _METADATA and isinstance(tensor, dict) and _has_end(tensor)
    ]
    if ends and max(ends) > data_bytes:
        _refuse(
            path,
            f"is cut off: its tensors take {max(ends)} bytes and {data_bytes} are there; download "
            "it again",
        )


def _has_end(tensor: Mapping[str, Any]) -> bool:
    offsets = tensor.get("data_offsets")
    return isinstance(offsets, list) and len(offsets) == 2 and type(offsets[1]) is int


def _refuse(path: str, problem: str) -> NoReturn:
    raise Invalid([Problem(_OPTION, f"{path[:200]}: {problem}")])
