"""A lever's share and end: an end that has passed or is far ahead is warned of.

That is no fault: clocks differ, and a lever may be meant to hold. The commands that set levers
refuse what is over `LONGEST_SECONDS`. A share that is no whole percent is one: 0.5 looks like one
half. It is refused here and not by the schema, for such a lever may be stored already.
"""

from collections.abc import Iterator

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal, warning

_DAY_SECONDS = 24 * 3600.0
LONGEST_SECONDS = 7 * _DAY_SECONDS
"""A lever that outlasts a week outlasts the people who know why it was pulled."""
_FIELD = "spec.overload.override.until"
_SHARE = "spec.overload.override.percent"


def check(spec: LLMDeploymentSpec, now: float | None) -> Iterator[Finding]:
    """Yield what is to be said of the lever; `now` is None where nobody knows the time."""
    lever = spec.overload.override
    if lever is None:
        return
    percent = lever.percent
    if percent is not None and (percent < 1 or percent != int(percent)):
        yield refusal(
            Reason.INVALID_SPEC,
            _SHARE,
            "must be a whole percent from 1 to 100",
            "50 is one half; to let everything in remove the lever, or set action Open",
        )
    if now is None:
        return
    left = lever.until.timestamp() - now
    if left <= 0:
        yield warning(Reason.OVERRIDE_LAPSED, _FIELD, "this has passed, so the lever does nothing")
    elif left > LONGEST_SECONDS:
        days = f"{left / _DAY_SECONDS:.0f} days"
        yield warning(
            Reason.OVERRIDE_LONG,
            _FIELD,
            f"the lever holds for {days}, over a week, and no signal lets go of it",
        )
