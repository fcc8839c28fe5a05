"""What a rule is: a recorded expression, or an alert with all that whoever is on call needs."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning"]
"""Critical wakes somebody; warning is a ticket."""


@dataclass(frozen=True)
class Recording:
    """An expression that is recorded under a name of its own.

    Attributes:
        name: `tidegate:<what>:<how>`.
        promql: The expression.
        lever: The label `lever`, where one name is recorded for several levers.
    """

    name: str
    promql: str
    lever: str = ""


@dataclass(frozen=True)
class Alert:
    """A condition that somebody must act on.

    Attributes:
        name: In CamelCase; its runbook has the same name.
        promql: Fires for each series of the answer.
        severity: Whether it wakes somebody.
        for_seconds: How long the expression must hold.
        keep_seconds: How long it goes on firing after, so that it does not flap.
        summary: One line, with the labels.
        description: What that means, with the value.
        burn: How many times faster than allowed a budget is spent; empty where none is.
    """

    name: str
    promql: str
    severity: Severity
    for_seconds: int
    keep_seconds: int
    summary: str
    description: str
    burn: str = ""


@dataclass(frozen=True)
class Group:
    """Rules that are evaluated one after another."""

    name: str
    rules: tuple[Recording | Alert, ...]
