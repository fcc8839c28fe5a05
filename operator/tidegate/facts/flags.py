"""Flags of `vllm serve`: one as data, and how vLLM's parser finds it in an argument.

Nothing here knows a version; `facts.engines` has one table of flags per version.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# vLLM's human_readable_int: lower case is decimal, upper case binary; `Gi` and `GB` are not known.
_SUFFIXES: dict[str, int] = {
    **{suffix: 10 ** (3 * power) for power, suffix in enumerate("kmgt", start=1)},
    **{suffix: 2 ** (10 * power) for power, suffix in enumerate("KMGT", start=1)},
}
_HUMAN = re.compile(r"(\d+)(\.\d+)?([kKmMgGtT])")
_LEVEL = re.compile(r"^-O=?(.+)$")
_LEVEL_FLAG = "--optimization-level"


@dataclass(frozen=True)
class Flag:
    """One flag; `kind` is bool, int, human-int, human-int-or-auto, float, str or json.

    `negatives` are the spellings that set a bool to false. Where `choices_are_open`, the parser
    takes other values too and the engine checks them later (a plugin may add some).
    """

    name: str
    kind: str
    default: Any
    aliases: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    choices: tuple[str | int, ...] = ()
    choices_are_open: bool = False
    takes_many: bool = False
    value_is_optional: bool = False
    group: str = ""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every way to write the flag in full."""
        return (self.name, *self.aliases, *self.negatives)

    def read(self, text: str) -> Any:
        """Return one value as the engine reads it.

        Raises:
            ValueError: The engine's parser would end with exit code 2; says what it takes.
        """
        try:
            value = _READERS[self.kind](text)
        except ValueError as error:
            raise ValueError(
                f"{self.name}: {text!r} is no {self.kind} value{_why(error)}"
            ) from error
        if self.choices and not self.choices_are_open and value not in self.choices:
            listed = ", ".join(map(str, self.choices))
            raise ValueError(f"{self.name}: {text!r} is none of {listed}")
        return value


@dataclass(frozen=True)
class Match:
    """The flag that an argument names, and what the argument carries besides.

    `path` are the keys of a dotted form (`--kv-transfer-config.kv_role`), a trailing `+` kept;
    `value` is what follows `=`, None where the value is the next argument (or there is none).
    """

    flag: Flag
    value: str | None = None
    is_negated: bool = False
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ambiguous:
    """An abbreviation that fits several spellings: the engine's parser refuses it."""

    argument: str
    candidates: tuple[str, ...]


def read_human_int(text: str) -> int:
    """Return the integer that vLLM reads: `4k` is 4000, `4K` is 4096, no unit is a plain number.

    Raises:
        ValueError: Not such a number, or a fraction of a binary unit.
    """
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return int(text)
    whole, fraction, suffix = match.groups()
    if fraction is None:
        return int(whole) * _SUFFIXES[suffix]
    if suffix.isupper():
        raise ValueError(f"a fraction needs a decimal unit: {whole}{fraction}{suffix.lower()}")
    return int(float(whole + fraction) * _SUFFIXES[suffix])


def resolve(spellings: Mapping[str, Flag], argument: str) -> Match | Ambiguous | None:
    """Return the flag that an argument names, by the rules of vLLM's parser; None for no flag.

    Underscores count as dashes, an unambiguous beginning is enough, `=` parts off a value, a dot
    the keys of a JSON flag; `-O3` and `-n4` carry their value.
    """
    if not argument.startswith("-") or argument in ("-", "--") or re.match(r"-\d", argument):
        return None
    if level := _LEVEL.match(argument):
        return Match(spellings[_LEVEL_FLAG], level[1]) if _LEVEL_FLAG in spellings else None
    written, has_value, value = argument.partition("=")
    head, *path = written.split(".")
    if head.startswith("--"):
        head = "--" + head[2:].replace("_", "-")
    candidates = [head] if head in spellings else _beginning_with(spellings, head)
    if not candidates:
        return _attached(spellings, argument)
    if len(candidates) > 1:
        return Ambiguous(argument, tuple(candidates))
    flag = spellings[candidates[0]]
    is_negated = candidates[0] in flag.negatives
    return Match(flag, value if has_value else None, is_negated, tuple(path))


def _beginning_with(spellings: Mapping[str, Flag], head: str) -> list[str]:
    return sorted(spelling for spelling in spellings if spelling.startswith(head))


def _attached(spellings: Mapping[str, Flag], argument: str) -> Match | None:
    """Read `-n4`: a flag of one letter with its value behind it."""
    flag = spellings.get(argument[:2])
    return None if flag is None or argument.startswith("--") else Match(flag, argument[2:])


def _read_bool(text: str) -> bool:
    raise ValueError("it takes no value")


def _read_human_int_or_auto(text: str) -> int:
    return -1 if text.strip().lower() in ("auto", "-1") else read_human_int(text)


def _why(error: ValueError) -> str:
    told = str(error)
    return f" ({told})" if "needs" in told or "takes" in told else ""


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _read_bool,
    "int": int,
    "human-int": read_human_int,
    "human-int-or-auto": _read_human_int_or_auto,
    "float": float,
    "str": str,
    "json": json.loads,
}
