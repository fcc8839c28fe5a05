"""`tidegate explain TERM`: what a field does, or what a reason means. Pure: it returns facts."""

import difflib
import re
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.api import fields
from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.fields import FieldFacts
from tidegate.api.reasons import Reason

_KIND = re.compile(r"^(llmd|llmdeployments?|llmdeployments?\.tidegate\.io)\.", re.IGNORECASE)
_INDEX = re.compile(r"\[[^\]]*\]")
_SUGGESTIONS = 5
_LEAST_LIKE = 0.8
"""How like a name a term must be to be taken for it: a slip or two of the pen, not another word."""


@dataclass(frozen=True)
class ReasonFacts:
    """A reason, what it means and what to do about it."""

    reason: str
    meaning: str
    action: str

    def wire(self) -> dict[str, Any]:
        """Return the facts as a JSON document."""
        return asdict(self)

    def text(self) -> str:
        """Return the facts as lines for a terminal."""
        return f"{self.reason}\n\n{self.meaning}\n\nWhat to do: {self.action}"


@dataclass(frozen=True)
class Unknown:
    """Neither a field nor a reason; `suggestions` are the nearest of both."""

    term: str
    suggestions: tuple[str, ...]


def explain(term: str) -> FieldFacts | ReasonFacts | Unknown:
    """Explain a reason (`KVCacheTooSmall`) or a field (`kvCache.dtype`, `spec.engine.env[0].name`).

    Letter case, list indices, a leading kind and a missing leading `spec.` do not matter.
    """
    wanted = term.strip()
    for reason in Reason:
        if reason.value.lower() == wanted.lower():
            known = EXPLANATIONS[reason]
            return ReasonFacts(reason.value, known.meaning, known.action)
    return _field(wanted) or Unknown(term, _nearest(wanted))


def _field(wanted: str) -> FieldFacts | None:
    """Find a field by its path, or by its name alone where only one field has it."""
    path = _normal(wanted)
    found = {_normal(known): facts for known, facts in fields.by_path().items()}
    named = _named(path)
    only = named[0] if len(named) == 1 else None
    return found.get(f"spec.{path}") or found.get(path) or only


def _named(name: str) -> list[FieldFacts]:
    return [facts for facts in fields.by_path().values() if facts.name.lower() == name]


def _normal(path: str) -> str:
    return _INDEX.sub("", _KIND.sub("", path.strip(". "))).lower()


def _nearest(wanted: str) -> tuple[str, ...]:
    """Return the reasons and fields that look most like a term; a field by its name, too."""
    path = _normal(wanted).removeprefix("spec.")
    name = path.rpartition(".")[2]
    same_name = [facts.path for facts in _named(path)]
    by_name = {facts.name.lower(): at for at, facts in reversed(fields.by_path().items())}
    by_path = {_normal(at).removeprefix("spec."): at for at in fields.by_path()}
    known = {**by_path, **by_name, **{reason.lower(): str(reason) for reason in Reason}}
    close = [
        *difflib.get_close_matches(path, known, _SUGGESTIONS, _LEAST_LIKE),
        *difflib.get_close_matches(name, known, _SUGGESTIONS, _LEAST_LIKE),
    ]
    return tuple(dict.fromkeys([*same_name, *(known[name] for name in close)]))[:_SUGGESTIONS]
