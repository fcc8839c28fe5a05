"""The engine's flags as JSON: `{"tensor-parallel-size": 2, "enforce-eager": true}`, checked."""

import difflib
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.errors import Invalid, Problem, Refused
from tidegate.facts.engines import Engine
from tidegate.facts.flags import Flag

LARGEST = 2**53
"""The largest whole number that a flag takes: beyond it JSON readers disagree."""

_KV_DTYPE = "--kv-cache-dtype"  # has a reason of its own, for which `settings` refuses it


def read(document: Mapping[str, Any], engine: Engine, where: str) -> dict[str, Any]:
    """Return the flags by name with their typed values; null is an absent flag.

    Args:
        document: Flag names without dashes; a flag without a value is true or false.
        engine: The version whose flags they are.
        where: The path of the document, for messages.

    Raises:
        Refused: FLAG_UNSUPPORTED, this version has no such flag or value.
        Invalid: A value has the wrong type; names its key.
    """
    arguments: dict[str, Any] = {}
    for key, value in document.items():
        flag = _flag(key, engine, where)
        name = flag.name.lstrip("-")
        if name in arguments:
            _invalid(where, key, f"is {flag.name}, which is given twice; keep one of them")
        if value is not None:
            arguments[name] = _value(flag, value, engine, where, key)
    return arguments


def _flag(key: str, engine: Engine, where: str) -> Flag:
    name = f"--{key.replace('_', '-')}"
    flag = engine.spellings.get(name)
    if flag is None:
        known = [spelling[2:] for spelling in engine.spellings if spelling.startswith("--")]
        near = difflib.get_close_matches(name[2:], known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        instead = engine.removed_flag(name)
        told = f"it has it no more: {instead}" if instead else f"it has no such flag{hint}"
        field = f"{where}.{key[:80]}"
        raise Refused(Reason.FLAG_UNSUPPORTED, f"{field}: vLLM {engine.version}: {told}", field)
    if name in flag.negatives:
        _invalid(where, key, f'must be written as "{flag.name[2:]}": false')
    return flag


def _value(flag: Flag, value: Any, engine: Engine, where: str, key: str) -> Any:
    if flag.takes_many:
        items = value if isinstance(value, list) else [value]
        return [_single(flag, item, engine, where, key) for item in items]
    return _single(flag, value, engine, where, key)


def _single(flag: Flag, value: Any, engine: Engine, where: str, key: str) -> Any:
    match flag.kind:
        case "bool":
            if not isinstance(value, bool):
                _invalid(where, key, f"must be true or false, not {_shown(value)}")
        case "int" | "human-int" | "human-int-or-auto":
            value = _whole(flag, value, where, key)
        case "float":
            if isinstance(value, bool) or not isinstance(value, int | float):
                _invalid(where, key, f"must be a number, not {_shown(value)}")
            value = _finite(value, where, key)
        case "json":
            value = _object(value, where, key)
        case _:
            if flag.takes_many and isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if not isinstance(value, str):
                _invalid(where, key, f"must be a string, not {_shown(value)}")
    _check_choice(flag, value, engine, f"{where}.{key}")
    return value


def _whole(flag: Flag, value: Any, where: str, key: str) -> int:
    if isinstance(value, str) and flag.kind != "int":
        try:
            value = flag.read(value)
        except ValueError:
            _invalid(where, key, f"must be a number of tokens or bytes, not {_shown(value)}")
    if isinstance(value, bool) or not isinstance(value, int):
        _invalid(where, key, f"must be a whole number, not {_shown(value)}")
    if abs(value) > LARGEST:
        _invalid(where, key, f"must be at most {LARGEST}, not {_shown(value)}")
    return value


def _finite(value: int | float, where: str, key: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        _invalid(where, key, "must be a finite number")
    return number


def _object(value: Any, where: str, key: str) -> Any:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            _invalid(where, key, f"must be an object or JSON in a string, not {_shown(value)}")
    if not isinstance(value, Mapping):
        _invalid(where, key, f"must be an object, not {_shown(value)}")
    return value


def _check_choice(flag: Flag, value: Any, engine: Engine, field: str) -> None:
    if flag.name == _KV_DTYPE or flag.choices_are_open:
        return
    if not flag.choices or value in flag.choices:
        return
    raise Refused(
        Reason.FLAG_UNSUPPORTED,
        f"{field}: vLLM {engine.version} does not take {_shown(value)}; use one of "
        f"{', '.join(map(str, flag.choices))}",
        field,
    )


def _shown(value: Any) -> str:
    """Return a value as JSON, cut where it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return f"a number of {math.floor(math.log10(abs(value))) + 1} digits"
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _invalid(where: str, key: str, problem: str) -> NoReturn:
    raise Invalid([Problem(f"{where}.{key[:80]}", problem)])
