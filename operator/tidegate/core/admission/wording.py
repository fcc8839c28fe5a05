"""How a review is told through the API server, whose own limits these are."""

from collections.abc import Iterable

from tidegate.core.admission.finding import Finding
from tidegate.core.admission.review import Review

LONGEST_WARNING = 256
"""Characters of one warning; clients may cut what is longer."""
MOST_WARNING_CHARACTERS = 4096
"""Of all warnings of an answer: the API server drops what comes after."""
LONGEST_REFUSAL = 8192


def refusal(found: Review, name: str) -> str:
    """Return the message of a refusal: every fault in one line each."""
    return _refusal(found.problems, name)


def denial(questions: Iterable[Finding], name: str) -> str:
    """Return the message of a refusal for want of permissions."""
    return _refusal(tuple(questions), name)


def warnings(found: Review) -> list[str]:
    """Return the warnings as kubectl shows them, within its limits."""
    told: list[str] = []
    left = MOST_WARNING_CHARACTERS
    for one in found.warnings:
        line = _cut(one.line, LONGEST_WARNING)
        if len(line) > left:
            break
        told.append(line)
        left -= len(line)
    return told


def _refusal(found: tuple[Finding, ...], name: str) -> str:
    count = "1 fault" if len(found) == 1 else f"{len(found)} faults"
    lines = [f"LLMDeployment {name} is refused ({count}):", *(f"- {one.line}" for one in found)]
    return _cut("\n".join(lines), LONGEST_REFUSAL)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
