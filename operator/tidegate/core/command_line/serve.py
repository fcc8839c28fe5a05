"""A `vllm serve` command line as the flags that it sets, each with its typed value.

Equal to vLLM's parser: underscores count as dashes, an unambiguous beginning is enough, of a flag
given twice the last one wins, the command line wins over its config file, and the keys of a dotted
flag make one object that wins over the same flag written as JSON (and over another spelling of the
dotted flag that came before).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.command_line import config_file
from tidegate.core.command_line.arguments import LARGEST
from tidegate.core.command_line.scan import Given, scan
from tidegate.errors import Refused
from tidegate.facts.engines import Engine
from tidegate.facts.flags import Flag, read_human_int

_FIELD = "--serve"


@dataclass(frozen=True)
class ServeCommand:
    """A command line: the model's string, and the flags by name (without dashes) with values.

    `notes` say what the engine silently leaves out.
    """

    model: str | None
    arguments: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass
class _Reading:
    """What is known so far; `dotted` has an object for each spelling of a dotted flag."""

    arguments: dict[str, Any] = field(default_factory=dict)
    dotted: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)


def read(words: Sequence[str], engine: Engine, config_text: str | None = None) -> ServeCommand:
    """Read the words behind `vllm serve`.

    Args:
        words: The words; see `words.split`.
        engine: The version whose flags they are.
        config_text: The content of the file that `--config` names.

    Raises:
        Refused: FLAG_UNSUPPORTED; every fault is named with its word and the fix.
        Invalid: The config file is no mapping.
    """
    configured = config_file.read(config_text or "")
    before, after = scan(configured.words, engine), scan(words, engine)
    faults = before.faults + after.faults
    positional = after.positional
    if len(positional) > 1:
        faults.append(f"`{positional[1]}`: it is no flag, and the model is {positional[0]}")
    reading = _Reading()
    for given in before.given + after.given:
        fault = _take(given, reading)
        if fault:
            faults.append(f"`{given.word[:80]}`: {fault}")
    arguments = reading.arguments
    for (name, _), value in reading.dotted.items():
        arguments[name] = value
    if _is_model_overlooked(words, arguments):
        faults.append("the engine takes the model only as the first word here; put it there")
    if faults:
        raise Refused(Reason.FLAG_UNSUPPORTED, "; ".join(faults), _FIELD)
    named = arguments.pop("model", None)
    return ServeCommand(positional[0] if positional else named, arguments, configured.notes)


def _is_model_overlooked(words: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Say whether the engine does not find its model behind one of these two flags."""
    is_first = bool(words) and not words[0].startswith("-")
    if is_first or "model" in arguments:
        return False
    return "config" in arguments or "served-model-name" in arguments


def _take(given: Given, reading: _Reading) -> str | None:
    """Add one flag to what is known; return what is wrong with it."""
    flag, values = given.match.flag, given.values
    name = flag.name.lstrip("-")
    if given.match.path:
        spelling = given.word.partition("=")[0].split(".")[0].replace("_", "-")
        return _take_dotted(given, reading.dotted.setdefault((name, spelling), {}))
    if flag.name == "--config" and "=" in given.word:
        return "the engine reads the file only from `--config FILE`, in two words"
    if flag.kind == "bool":
        if values:
            opposite = f", or {flag.negatives[0]}" if flag.negatives else ""
            return f"{flag.name} takes no value; write it alone{opposite}"
        reading.arguments[name] = not given.match.is_negated
        return None
    if not values:
        return None if flag.value_is_optional else f"{flag.name} needs a value"
    try:
        read_values = [_read(flag, value) for value in values]
    except (ValueError, RecursionError) as error:
        return str(error)[:200]
    reading.arguments[name] = read_values if flag.takes_many else read_values[0]
    return None


def _read(flag: Flag, text: str) -> Any:
    """Read one value; what is no object, or a number beyond any engine, is no value either."""
    value = flag.read(text)
    if flag.kind == "json" and not isinstance(value, dict):
        raise ValueError(f"{flag.name} must be a JSON object")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{flag.name} must be at most {LARGEST}")
    return value


def _take_dotted(given: Given, target: dict[str, Any]) -> str | None:
    flag, path = given.match.flag, list(given.match.path)
    if flag.kind != "json":
        return f"{flag.name} has no keys"
    if not given.values or not all(key.rstrip("+") for key in path):
        return "a key needs a name and a value"
    value: Any = _dotted_value(given.values[0])
    if path[-1].endswith("+"):
        path[-1], value = path[-1][:-1], given.values[0].split(",")
    for key in reversed(path):
        value = {key: value}
    _merge(target, value)
    return None


def _dotted_value(text: str) -> Any:
    for reader in (json.loads, read_human_int):
        try:
            return reader(text)
        except (ValueError, RecursionError):
            continue
    return text


def _merge(target: dict[str, Any], update: Mapping[str, Any]) -> None:
    for key, value in update.items():
        there = target.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            _merge(there, value)
        elif isinstance(there, list) and isinstance(value, list):
            target[key] = there + value
        else:
            target[key] = value
