"""What admission finds: a field, what stands there, what must hold, what mends it, a reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.reasons import Reason
from tidegate.core.admission import paths
from tidegate.core.checks import Change, Severity, Verdict
from tidegate.errors import Problem, Refused, Wait

_SECRET_STEPS = {"env", "value"}
_LONGEST_VALUE = 80


@dataclass(frozen=True)
class Finding:
    """One fault, warning or note.

    `limit` is a sentence with the numbers that must hold, `fix` one that says what to do, empty
    where `limit` does so already. `value` is what stands at `field`, as text; None where that is
    nothing, a whole object, or a variable's value, which may be a secret.
    """

    reason: Reason
    severity: Severity
    field: str
    limit: str
    fix: str
    value: str | None = None
    changes: tuple[Change, ...] = ()
    pool: str | None = None
    node_class: str | None = None

    @property
    def is_refusal(self) -> bool:
        """Say whether the resource is refused for it."""
        return self.severity is Severity.REFUSE

    @property
    def line(self) -> str:
        """The whole finding in one line, for kubectl and logs."""
        at = f"{self.field} is {self.value}" if self.value is not None else self.field
        fix = f"; {_lowered(self.fix)}" if self.fix else ""
        return f"{self.reason}: {at}: {self.limit}{fix}"

    @property
    def told(self) -> str:
        """What a refusal says after its reason."""
        return self.line.removeprefix(f"{self.reason}: ")

    def wire(self) -> dict[str, Any]:
        """Return the finding as a JSON document (docs/reference/cli.md)."""
        return {
            "reason": str(self.reason),
            "severity": str(self.severity),
            "field": self.field,
            "value": self.value,
            "message": self.limit,
            "fix": self.fix or EXPLANATIONS[self.reason].action,
            "pool": self.pool,
            "nodeClass": self.node_class,
            "changes": [
                {"field": c.field, "value": c.value, "effect": c.effect} for c in self.changes
            ],
        }


def refusal(reason: Reason, field: str, limit: str, fix: str = "") -> Finding:
    """Return a fault; without a fix of its own, that of its reason."""
    return Finding(reason, Severity.REFUSE, field, limit, fix or EXPLANATIONS[reason].action)


def warning(reason: Reason, field: str, limit: str, fix: str = "") -> Finding:
    """Return what is let in, and told."""
    return Finding(reason, Severity.WARN, field, limit, fix or EXPLANATIONS[reason].action)


def of_problem(problem: Problem) -> Finding:
    """Return what the schema or a rule between fields says; its sentence is the fix, too."""
    return Finding(Reason.INVALID_SPEC, Severity.REFUSE, problem.field, problem.message, fix="")


def of_error(error: Refused | Wait) -> Finding:
    """Return why there is no model, plan or pod; what only waits is a warning."""
    reason = Reason(error.reason)
    if isinstance(error, Wait):
        return Finding(reason, Severity.WARN, "spec.model.configRef", error.message, fix="")
    return Finding(reason, Severity.REFUSE, error.field or "spec", error.message, fix="")


def of_verdict(verdict: Verdict) -> Finding:
    """Return what a check says; the nearest changes are its fix, where its message has none."""
    return Finding(
        verdict.reason,
        verdict.severity,
        verdict.field or "spec",
        verdict.message,
        "; ".join(str(c) for c in verdict.changes if c.told not in verdict.message),
        changes=verdict.changes,
        pool=verdict.pool,
        node_class=verdict.node_class,
    )


def value_at(document: Mapping[str, Any], field: str) -> str | None:
    """Return what stands at a field, for a sentence: escaped and cut; None for no scalar."""
    steps = paths.steps(field)
    found = paths.value(document, steps)
    if found is None or isinstance(found, Mapping | list) or set(steps) >= _SECRET_STEPS:
        return None
    return shown(found)


def shown(value: object) -> str:
    """Show a stranger's value in one line: text in quotes, escaped and cut."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)[:_LONGEST_VALUE]
    cut = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
    return ascii(cut)


def _lowered(sentence: str) -> str:
    """Begin a sentence as the second half of another."""
    is_acronym = sentence[:2].isupper()
    text = sentence if is_acronym else f"{sentence[:1].lower()}{sentence[1:]}"
    return text.rstrip(".")
