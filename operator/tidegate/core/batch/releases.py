"""The engine's version of a case, and whose flags and rules stand for it."""

import re
from dataclasses import dataclass

from tidegate.facts import engines
from tidegate.facts.engines import Engine

_OLDER = re.compile(r"v?0\.(\d{1,3})(?:\.\S*)?")


@dataclass(frozen=True)
class Release:
    """A version of the engine: `engine` has the flags and rules, `version` the estimates' age."""

    engine: Engine
    version: str
    notes: tuple[str, ...] = ()


def find(version: str | None) -> Release:
    """Return the release of a version; the newest that is known where none is told.

    A release before the oldest of the catalogue is sized by that one's flags and KV rules, with
    the budget's estimates of its own age, and a note says so: what public logs of older engines
    show can be compared. A newer release is never guessed.

    Raises:
        Refused: ENGINE_VERSION_UNKNOWN.
    """
    oldest, newest = engines.versions()[0], engines.versions()[-1]
    asked = version or newest
    older = _OLDER.fullmatch(asked)
    if older is not None and int(older[1]) < int(oldest.split(".")[1]):
        note = f"vLLM {asked} is not in the catalogue: flags and KV rules are those of {oldest}"
        return Release(engines.engine(oldest), asked.removeprefix("v"), (note,))
    engine = engines.engine(asked)
    return Release(engine, engine.version, (engine.note,) if engine.note else ())
