"""One pass over the words of a command line: which flags are given, with which values."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.facts.engines import Engine
from tidegate.facts.flags import Ambiguous, Match

# As argparse: a dash begins a flag, save in a number or where a space shows that it is text.
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_LONGEST_SHOWN = 80
_LEVELS = ("0", "1", "2", "3")


@dataclass(frozen=True)
class Given:
    """One flag as it was written, with the values that belong to it."""

    word: str
    match: Match
    values: tuple[str, ...]


@dataclass
class Scanned:
    """What a pass over the words found, in their order; a fault names its word and the fix."""

    given: list[Given] = field(default_factory=list)
    positional: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def scan(words: Sequence[str], engine: Engine) -> Scanned:
    """Find the flags of a command line by the engine's own table."""
    found = Scanned()
    words = _with_levels(words)
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        match = engine.resolve(word)
        if isinstance(match, Match):
            values = _values(words, position, match)
            position += 0 if match.value is not None else len(values)
            found.given.append(Given(word, match, values))
        elif is_value(word):
            found.positional.append(word)
        else:
            position += len(_following(words, position, None))  # they belong to the unknown flag
            found.faults.append(f"`{word[:_LONGEST_SHOWN]}`: {_why_not(word, match, engine)}")
    return found


def _with_levels(words: Sequence[str]) -> list[str]:
    """Join `-O 2`, the one short flag whose value may stand apart only where it is a level."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "-O" and word in _LEVELS:
            joined[-1] = f"-O{word}"
        else:
            joined.append(word)
    return joined


def is_value(word: str) -> bool:
    """Say whether the engine's parser takes a word for a value rather than for a flag."""
    return not word.startswith("-") or " " in word or bool(_NEGATIVE_NUMBER.fullmatch(word))


def unknown(name: str, engine: Engine) -> str:
    """Say that a version has no such flag, and which one is meant or has taken its place."""
    instead = engine.removed_flag(name)
    if instead:
        return f"vLLM {engine.version} has it no more: {instead}"
    near = difflib.get_close_matches(name, engine.spellings, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"vLLM {engine.version} has no such flag{hint}"


def _values(words: Sequence[str], position: int, match: Match) -> tuple[str, ...]:
    if match.value is not None:
        return (match.value,)
    if match.path:  # the next word is the value, whatever it looks like
        return tuple(words[position : position + 1])
    if match.flag.kind == "bool":
        return ()
    return _following(words, position, None if match.flag.takes_many else 1)


def _following(words: Sequence[str], position: int, most: int | None) -> tuple[str, ...]:
    end = position
    while end < len(words) and is_value(words[end]) and end - position != most:
        end += 1
    return tuple(words[position:end])


def _why_not(word: str, match: Ambiguous | None, engine: Engine) -> str:
    if match is not None:
        return f"it may mean {', '.join(match.candidates)}; write the one that is meant"
    return unknown(word.partition("=")[0].replace("_", "-"), engine)
