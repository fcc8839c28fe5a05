"""The flags that say which CUDA graphs the engine captures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.errors import Refused

_SIZES = "cudagraph-capture-sizes"
_LARGEST = "max-cudagraph-capture-size"
_MODES = ("PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
_NO_GRAPHS = ("NONE", 0)
_MOST_SIZES = 4096
_MOST_TOKENS = 2**24


@dataclass(frozen=True)
class GraphFlags:
    """What is asked for, as `EngineConfig` has it; None is the engine's own choice."""

    enforce_eager: bool = False
    sizes: tuple[int, ...] | None = None
    largest: int | None = None
    mode: str | None = None


def read(arguments: Mapping[str, Any]) -> GraphFlags:
    """Read the flags, and the keys of --compilation-config that stand for them.

    Raises:
        Refused: FLAG_UNSUPPORTED, a value that the engine would refuse; names the flag.
    """
    given = arguments.get("compilation-config")
    config: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    mode = config.get("cudagraph_mode")
    is_eager = (
        arguments.get("enforce-eager", False)
        or arguments.get("optimization-level") in ("0", 0)
        or mode in _NO_GRAPHS
    )
    if is_eager:
        return GraphFlags(enforce_eager=True)
    sizes = _sizes(arguments.get(_SIZES, config.get("cudagraph_capture_sizes")))
    largest = _largest(arguments.get(_LARGEST, config.get("max_cudagraph_capture_size")))
    if sizes is not None and largest is not None and largest != max(sizes):
        _refuse(_LARGEST, f"{largest} is not the largest of {_SIZES}, {max(sizes)}; leave one out")
    named = str(mode).upper()
    return GraphFlags(False, sizes, largest, named if named in _MODES else None)


def _sizes(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    listed = value if isinstance(value, list) else [value]
    numbers = [int(one) if isinstance(one, str) and one.isdecimal() else one for one in listed]
    if not numbers or len(numbers) > _MOST_SIZES:
        _refuse(_SIZES, f"needs from 1 to {_MOST_SIZES} sizes")
    for one in numbers:
        if type(one) is not int or not 1 <= one <= _MOST_TOKENS:
            _refuse(_SIZES, f"must hold whole numbers from 1 to {_MOST_TOKENS}, not {one!r:.40}")
    return tuple(sorted(set(numbers)))


def _largest(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 1 <= value <= _MOST_TOKENS:
        _refuse(_LARGEST, f"must be from 1 to {_MOST_TOKENS}, not {value!r:.40}")
    return int(value)


def _refuse(name: str, problem: str) -> NoReturn:
    raise Refused(Reason.FLAG_UNSUPPORTED, f"{name} {problem}", name)
