"""From a request to its answer: what the review says, and what its writer may do."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.core.admission import Facts, authorship, bounds, defaults, wording
from tidegate.shell.admission import wire
from tidegate.shell.admission.access import Access, Unanswered
from tidegate.shell.admission.judging import Judge
from tidegate.shell.admission.wire import Denial, Request

ERROR = "error"
"""What is counted where there is no verdict."""
_NOT_OURS = "tidegate reviews LLMDeployments only; its webhook is registered for more than that"


@dataclass(frozen=True)
class Answer:
    """The body of an answer, and what is counted of it."""

    body: bytes
    verdict: str
    reason: str = ""


@dataclass
class Reviewer:
    """Answers requests. `facts_of` reads caches; `access` may ask the API server."""

    facts_of: Callable[[Request], Facts]
    access: Access
    judge: Judge = field(default_factory=Judge)

    def mutate(self, request: Request) -> Answer:
        """Add the defaults that are missing, and who set a lever.

        What cannot be read is left to `validate`.
        """
        if not request.is_reviewed:
            return _passed(request)
        is_readable = bounds.check(request.new) is None
        patch = [one.operation for one in defaults.missing(request.new)] if is_readable else []
        if is_readable:
            patch += authorship.operations(request.old, request.new, request.user.name)
        return Answer(wire.allowed(request.uid, patch=patch), "allowed")

    async def validate(self, request: Request) -> Answer:
        """Let the resource in, with warnings, or refuse it with all its faults."""
        if not request.is_reviewed:
            return _passed(request)
        found = await self.judge.review(request.old, request.new, self.facts_of(request))
        warnings = wording.warnings(found)
        if found.problems:
            message = wording.refusal(found, request.called)
            denial = Denial(422, "Invalid", message, found.problems)
            body = wire.denied(request, denial, warnings)
            return Answer(body, "refused", str(found.problems[0].reason))
        try:
            refused = await self.access.refused(request.user, found.access)
        except Unanswered as error:
            return failed(request, f"{error}; try again")
        if refused:
            faults = tuple(question.denied(request.user.name) for question in refused)
            denial = Denial(403, "Forbidden", wording.denial(faults, request.called), faults)
            body = wire.denied(request, denial, warnings)
            return Answer(body, "denied", str(faults[0].reason))
        if found.warnings:
            reason = str(found.warnings[0].reason)
            return Answer(wire.allowed(request.uid, warnings), "warned", reason)
        return Answer(wire.allowed(request.uid), "allowed")


def failed(request: Request, message: str) -> Answer:
    """Return the answer where there is no verdict: not let in, and no fault of the resource."""
    said = f"LLMDeployment {request.called} is not let in: {message}"
    denial = Denial(503, "ServiceUnavailable", said)
    return Answer(wire.denied(request, denial), ERROR)


def _passed(request: Request) -> Answer:
    warnings = () if request.is_of_our_kind else (_NOT_OURS,)
    return Answer(wire.allowed(request.uid, warnings), "allowed")
