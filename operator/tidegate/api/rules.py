"""Rules between fields, as the API server runs them (CEL), with the words that Python uses too.

A rule stands twice on purpose: as a validator of the model (webhook, reconcile and command line)
and here beside it (a cluster without the webhook). The table of tests/unit/api/refusals.yaml is
run against both, so they cannot drift apart.
"""

from typing import Any

from tidegate.api import text

VALIDATIONS = "x-kubernetes-validations"


def rule(expression: str, message: str, at: str = "") -> dict[str, Any]:
    """Return one CEL rule; `message` says what must hold and so what to change.

    `at` is the field that is refused, from where the rule stands (`.spec.overload.shift.to`);
    without it the API server names the whole object, and at the root nothing.
    """
    named = {"fieldPath": at} if at else {}
    return {"rule": expression, "message": message, **named}


def matches(subject: str, pattern: str) -> str:
    """Return the expression that a string matches a pattern."""
    return f"{subject}.matches(r'{pattern}')"


def takes_time(field: str) -> str:
    """Return the expression that a duration, where it is set and well-formed, is not zero."""
    return (
        f"(!has(self.{field}) || !{matches(f'self.{field}', text.DURATION.pattern)} || "
        f"duration(self.{field}) > duration('0s'))"
    )


def rules(*items: dict[str, Any]) -> dict[str, Any]:
    """Return a model's or a field's `json_schema_extra` that holds the rules."""
    return {VALIDATIONS: list(items)}
