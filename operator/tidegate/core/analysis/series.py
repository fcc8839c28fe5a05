"""The one series that a query must give. None is no zero, and of several none may be chosen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_MOST_NAMED = 3


@dataclass(frozen=True)
class Series:
    """A series of a query's answer: its labels and its newest value."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Fault:
    """Why an answer is not one series, with what was asked and what came."""

    message: str


def single(query: str, answer: Sequence[Series]) -> float | Fault | None:
    """Return the value of the only series of an answer.

    Args:
        query: What was asked, for the message.
        answer: All series that came.

    Returns:
        The value; None if it is no number, as a division by zero without traffic gives; a fault
        for no series or several.
    """
    if not answer:
        return Fault(f"no series where one was expected: {query}")
    if len(answer) > 1:
        named = "; ".join(_labels(of) for of in answer[:_MOST_NAMED])
        rest = len(answer) - _MOST_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        return Fault(f"{len(answer)} series where one was expected ({named}{more}): {query}")
    value = answer[0].value
    return value if math.isfinite(value) else None


def _labels(series: Series) -> str:
    return "{" + ", ".join(f'{name}="{of}"' for name, of in sorted(series.labels.items())) + "}"
