"""`spec.engine.extraArgs`: read as the engine's parser reads them, checked, written in full.

vLLM takes underscores for dashes, any unambiguous beginning of a flag, `=`, short flags and dotted
keys of JSON flags, and of a flag given twice the last one wins. So a flag is only known after it
was resolved, and what is passed on is spelled in one way: `--flag=value`.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.api.reasons import Reason
from tidegate.core.render import ownership
from tidegate.errors import Refused
from tidegate.facts.engines import Engine
from tidegate.facts.flags import Ambiguous, Match

_FIELD = "spec.engine.extraArgs"
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
Path = tuple[str, ...]


@dataclass
class _Reading:
    """The state of one pass over the arguments."""

    engine: Engine
    arguments: Sequence[str]
    position: int = 0
    written: list[str] = field(default_factory=list)
    faults: list[tuple[Reason, str]] = field(default_factory=list)
    seen: dict[str, list[Path]] = field(default_factory=dict)

    def take(self) -> str:
        """Return the next argument and step over it."""
        self.position += 1
        return self.arguments[self.position - 1]

    def take_values(self, most: int | None) -> list[str]:
        """Return the values that follow: as many as there are, at most `most`."""
        values: list[str] = []
        while self.position < len(self.arguments) and len(values) != most:
            if not _is_value(self.arguments[self.position]):
                break
            values.append(self.take())
        return values


def normalised(arguments: Sequence[str], engine: Engine) -> list[str]:
    """Return the arguments in full, each flag once and none that a field or Tidegate owns.

    Raises:
        Refused: The reason is that of the first fault; the message names every fault with the
            argument's index and what to do.
    """
    reading = _Reading(engine, arguments)
    while reading.position < len(arguments):
        index = reading.position
        argument = reading.take()
        fault = _read(reading, argument)
        if fault:
            reason, told = fault
            reading.faults.append((reason, f"extraArgs[{index}] `{argument}`: {told}"))
    if reading.faults:
        message = "; ".join(told for _, told in reading.faults)
        raise Refused(reading.faults[0][0], message, _FIELD)
    return reading.written


Fault = tuple[Reason, str]


def _read(reading: _Reading, argument: str) -> Fault | None:
    """Read one flag with its values; return what is wrong with it."""
    match = reading.engine.resolve(argument)
    if match is None:
        reading.take_values(None)  # whatever follows belongs to it and is no fault of its own
        return Reason.FLAG_UNSUPPORTED, _unknown(argument, reading.engine)
    if isinstance(match, Ambiguous):
        reading.take_values(None)
        listed = ", ".join(match.candidates)
        return Reason.FLAG_UNSUPPORTED, f"it may mean {listed}; write the one that is meant"
    values = _values(reading, match)
    objection = ownership.objection(match.flag.name) or ownership.value_objection(
        match.flag.name, match.path, values
    )
    if objection:
        return Reason.FLAG_OWNED_BY_FIELD, objection
    if _is_repeated(reading, match):
        return Reason.FLAG_REPEATED, f"{match.flag.name} is given before; keep one of them"
    wrong = _wrong(match, values)
    if wrong:
        return Reason.FLAG_UNSUPPORTED, f"vLLM {reading.engine.version} does not take it: {wrong}"
    reading.written += _in_full(match, values)
    return None


def _values(reading: _Reading, match: Match) -> list[str]:
    if match.value is not None:
        return [match.value]
    if match.path:  # the next argument is the value, whatever it looks like
        return [reading.take()] if reading.position < len(reading.arguments) else []
    if match.flag.kind == "bool":
        return []
    return reading.take_values(None if match.flag.takes_many else 1)


def _is_value(argument: str) -> bool:
    return not argument.startswith("-") or bool(_NEGATIVE_NUMBER.fullmatch(argument))


def _unknown(argument: str, engine: Engine) -> str:
    if not argument.startswith("-"):
        return "it is no flag, and no flag before it takes a value; the model is spec.model.id"
    if argument == "--":
        return "it would turn what follows into positional arguments; remove it"
    name = argument.partition("=")[0].replace("_", "-")
    instead = engine.removed_flag(name)
    if instead:
        return f"vLLM {engine.version} has it no more: {instead}"
    near = difflib.get_close_matches(name, engine.spellings, n=1, cutoff=0.75)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"vLLM {engine.version} has no such flag{hint}"


def _is_repeated(reading: _Reading, match: Match) -> bool:
    """Say whether the engine would let this overwrite an earlier argument, or the reverse.

    Keys of a JSON flag may be given one by one, and a key that ends in `+` adds to a list.
    """
    before = reading.seen.setdefault(match.flag.name, [])
    before.append(match.path)
    return any(_overwrites(match.path, path) for path in before[:-1])


def _overwrites(one: Path, other: Path) -> bool:
    if one == other and one and one[-1].endswith("+"):
        return False
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _wrong(match: Match, values: Sequence[str]) -> str | None:
    flag = match.flag
    if match.path:
        if flag.kind != "json":
            return f"{flag.name} has no keys"
        return None if values and all(match.path) else "a key needs a name and a value"
    if flag.kind == "bool":
        return f"{flag.name} takes no value; {_opposite(match)}" if values else None
    if not values and not flag.value_is_optional:
        return f"{flag.name} needs a value"
    try:
        for value in values:
            flag.read(value)
    except ValueError as error:
        return str(error)
    return None


def _opposite(match: Match) -> str:
    if match.flag.negatives:
        return f"write it alone, or {match.flag.negatives[0]}"
    return "write it alone or leave it out"


def _in_full(match: Match, values: Sequence[str]) -> list[str]:
    name = match.flag.name
    if match.path:
        return [f"{'.'.join((name, *match.path))}={values[0]}"]
    if match.is_negated:
        return [match.flag.negatives[0]]
    if not values:
        return [name]
    if match.flag.takes_many:
        return [name, *values]
    return [f"{name}={values[0]}"]
