"""The error tree: what may go wrong, told apart by what happens next.

TidegateError
├── Invalid     a document cannot be read: it waits for a new spec; every problem names its field
├── Refused     a document is well-formed and cannot work: it waits for a new spec
└── Wait        something that is needed is not there yet: try again after a delay

Anything else that is raised is a bug: logged with its trace, retried with backoff.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault in a document: `field` is a path such as `spec.pools.decode.replicas`."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class TidegateError(Exception):
    """The root of every error that Tidegate raises on purpose."""


class Invalid(TidegateError):
    """A document that cannot be read; holds all its problems, never only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, problems)))


class Refused(TidegateError):
    """A verdict: `reason` is a constant of `api.reasons`, `message` has the numbers and the fix."""

    def __init__(self, reason: str, message: str, field: str | None = None) -> None:
        self.reason = reason
        self.message = message
        self.field = field
        super().__init__(f"{field}: {message}" if field else message)


class Wait(TidegateError):
    """Something needed is missing now; asks to be tried again after `delay_seconds`."""

    def __init__(self, reason: str, message: str, delay_seconds: float = 10.0) -> None:
        self.reason = reason
        self.message = message
        self.delay_seconds = delay_seconds
        super().__init__(message)
