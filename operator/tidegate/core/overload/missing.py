"""What holds without data. No data is neither a load nor its absence: it opens and closes nothing.

`Hold` keeps the shares exactly for `holdFor`. After that, and at once with `StaticCap`, the loop
goes by what is left to be seen; where that is nothing it gives its shares back step by step, since
it no longer knows what they are for, and the gates' own token cap protects as it always does. So
it does at once where no Prometheus is set: a lever may have left shares there.
"""

from typing import Literal

from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import slew
from tidegate.core.overload.pressure import Pressure
from tidegate.core.overload.slew import Motion

Sight = Literal["Clear", "Held", "CapAlone"]
"""All is known; something is not, and shares hold; something is not, and counts no longer."""


def sight(spec: OverloadSpec, seen: Pressure, unknown_since: float | None, now: float) -> Sight:
    """Say what the loop may go by."""
    if unknown_since is None or not seen.has_gaps:
        return "Clear"
    if spec.on_missing_metrics == "StaticCap" or now - unknown_since >= spec.hold_for:
        return "CapAlone"
    return "CapAlone" if _is_for_good(seen) else "Held"


def _is_for_good(seen: Pressure) -> bool:
    """Tell whether there is no Prometheus to wait for."""
    return any(why.reason is Reason.METRICS_UNCONFIGURED for _, why in seen.unknown)


def released(total: int, motion: Motion) -> int:
    """Return the amount of the next step down where nothing at all is known."""
    pause = max(slew.SETTLE_SECONDS, motion.tick.scrape_interval_seconds)
    if motion.now - motion.changed_at < pause:
        return total
    return max(0, total - slew.DOWN_PERCENT)


def reason(seen: Pressure) -> Reason:
    """Return the reason of what is unknown."""
    return seen.unknown[0][1].reason if seen.unknown else Reason.METRICS_MISSING
