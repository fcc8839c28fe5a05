"""What the loop says as conditions: Overloaded, TrafficShifted, MetricsAvailable."""

import re
from dataclasses import replace

from tidegate.api.conditions import Condition, ConditionType, Status
from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload import pressure, words
from tidegate.core.overload.decision import Decision
from tidegate.core.overload.signal import Signals, Unknown
from tidegate.core.status.conditions import Verdict

_CAP = "the gates' own token cap protects"
_SIGNAL = re.compile(r"\w+ of pool \w+")


def overloaded(decision: Decision) -> Verdict:
    """Say whether a pool is over a threshold; unknown under a lever, and where nothing is known."""
    kind = ConditionType.OVERLOADED
    if decision.reason == Reason.OVERRIDE_ACTIVE or decision.reason.startswith("Metrics"):
        return Verdict(kind, "Unknown", decision.reason, decision.message)
    status: Status = "True" if decision.state == "Overloaded" else "False"
    return Verdict(kind, status, decision.reason, decision.message)


def traffic_shifted(decision: Decision) -> Verdict:
    """Say whether another deployment serves a part of the requests."""
    kind = ConditionType.TRAFFIC_SHIFTED
    if not decision.shift_percent:
        return Verdict(kind, "False", Reason.NOT_SHIFTING, "Every request is served here.")
    message = f"{decision.shift_percent} % of the requests are served by {decision.shift_to}"
    return Verdict(kind, "True", Reason.SHIFTING, message)


def metrics_available(
    spec: OverloadSpec, signals: Signals, silent: Unknown | None, *, has_shares: bool = True
) -> Verdict:
    """Say whether Prometheus tells what the loop decides by.

    Args:
        spec: `spec.overload`.
        signals: What is known of the deployment; empty where nothing is.
        silent: Why Prometheus gave no useful answer at all; None where it did.
        has_shares: Whether anything is turned away or shifted, and so could be held.
    """
    kind = ConditionType.METRICS_AVAILABLE
    policy = _policy(spec) if has_shares else _CAP
    seen = pressure.read(spec, signals)
    if not seen.has_gaps:
        named = ", ".join(f"{known.signal} of pool {known.pool}" for known in seen.known)
        return Verdict(kind, "True", Reason.METRICS_FRESH, f"Known: {named}.")
    if silent is not None and not seen.known:
        unset = silent.reason == Reason.METRICS_UNCONFIGURED
        told = silent.message if unset else f"{silent.message}; {policy}"
        return Verdict(kind, "Unknown" if unset else "False", silent.reason, told)
    reason = seen.unknown[0][1].reason if seen.unknown else Reason.METRICS_MISSING
    return Verdict(kind, "False", reason, f"{words.unknown(seen)}; {policy}")


def _policy(spec: OverloadSpec) -> str:
    if spec.on_missing_metrics == "StaticCap" or not spec.hold_for:
        return f"{_CAP}, and shares go back (onMissingMetrics, holdFor)"
    return f"shares hold for {spec.hold_for:g} s (holdFor), then {_CAP} alone"


def steady(verdict: Verdict, before: Condition | Verdict | None) -> Verdict:
    """Return the verdict in the words of before, where it is about the same.

    For MetricsAvailable: ages move at every tick, and so may the words in which a connection
    fails; a write for them would tell nothing new.
    """
    if before is None or (before.status, before.reason) != (verdict.status, verdict.reason):
        return verdict
    if _about(before.message) != _about(verdict.message):
        return verdict
    return replace(verdict, message=before.message)


def _about(message: str) -> tuple[set[str], str]:
    """Return which signals a message names, and what it says that holds."""
    return set(_SIGNAL.findall(message)), message.rpartition("; ")[2]
