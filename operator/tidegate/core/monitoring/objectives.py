"""Objectives and how fast their budgets are spent, over several windows at once.

A long window says that it matters, a short one that it still goes on (the SRE workbook's way).
TTFT: 95 % of the requests within `spec.slo.timeToFirstToken`, so 5 % may be late. The objective
differs by deployment and is a metric; so instead of the share that is late we ask for the quantile
beyond which the late ones would spend the budget that fast, and compare it with the objective.
Availability: 99.9 % of the requests that were not turned away on purpose, unless an installation
says otherwise: what that leaves to fail is recorded, so that one line changes it for all alerts.
"""

from dataclasses import dataclass

from tidegate.core.monitoring.promql import DEPLOYMENT, NAME, gates, most, operators, total
from tidegate.core.monitoring.rule import Alert, Group, Recording, Severity
from tidegate.core.monitoring.signals import ENDED, LOST, losses

TTFT_BUDGET = 0.05
AVAILABILITY_PERCENT = 99.9
AVAILABILITY_BUDGET = "tidegate:availability_budget:ratio"
"""The recording of the share of the requests that may fail."""
MOST_FAILING = 0.9
"""So many failing is too fast at any speed: 14.4 times a large budget would be more than all."""
TOP_CLASS_BUDGET = 0.001
TOP_CLASS = "9"
LEAST_REQUESTS = 20
"""Fewer in a window tell nothing of a quantile."""
LEAST_FAILURES = 5
"""Fewer are no trend, however few requests there were."""
SURVIVAL = 0.99

LOAD_REASONS = "kv-budget|ttft-slo|tpot-slo|max-seqs|queue-full|queue-timeout|shed"
"""Refusals that protect those who are served. `tenant-share` is a tenant's own doing."""
FAULT_REASONS = "no-endpoints|no-prefill|no-decode|no-configuration|draining|shift-loop"
"""Refusals that are the service's fault."""
GOOD = "finished|shifted"

_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True)
class Burn:
    """A speed of spending, and the two windows over which it must hold."""

    times: float
    long: str
    short: str
    severity: Severity
    for_seconds: int

    @property
    def label(self) -> str:
        """The speed as the alert's label has it."""
        return f"{self.times:g}x"


BURNS = (
    Burn(14.4, "1h", "5m", "critical", 2 * _MINUTE),  # 2 % of a month's budget in an hour
    Burn(6, "6h", "30m", "critical", 15 * _MINUTE),  # 5 % in six hours
    Burn(3, "1d", "2h", "warning", _HOUR),  # 10 % in a day
    Burn(1, "3d", "6h", "warning", 3 * _HOUR),  # 10 % in three days
)
_WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")
_TOP = f'class="{TOP_CLASS}"'
_BUCKET = "tidegate:ttft_seconds_bucket:rate5m"
_JUDGED, _FAILED = "tidegate:judged:rate5m", "tidegate:failed:rate5m"
_OFFERED, _TURNED_AWAY = "tidegate:top_class:rate5m", "tidegate:top_class_refused:rate5m"


def groups() -> tuple[Group, ...]:
    """Return what is recorded, and the alerts on it."""
    return (
        Group("tidegate.objectives", (*_bases(), *_quantiles(), *_ratios())),
        Group(
            "tidegate.burn",
            (
                *(_ttft_burn(burn) for burn in BURNS),
                *(_availability_burn(burn) for burn in BURNS),
                _top_class(),
                _tpot(),
                _survival(),
            ),
        ),
    )


def availability_budget(percent: float) -> str:
    """Return the expression of what an objective leaves to fail."""
    return f"vector({round(100 - percent, 6) / 100:g})"


def _bases() -> tuple[Recording, ...]:
    """Rates of five minutes, from which the longer windows are averaged at little cost."""
    buckets = f"rate({gates('tidegate_gate_ttft_seconds_bucket')}[5m])"
    judged = f"{_requests(f'{GOOD}|{LOST}')} or {_refused(FAULT_REASONS)}"
    offered = _requests(f"{GOOD}|{LOST}|refused", matchers=_TOP)
    return (
        Recording(AVAILABILITY_BUDGET, availability_budget(AVAILABILITY_PERCENT)),
        Recording(_BUCKET, total(f"{DEPLOYMENT}, le", buckets)),
        Recording(_JUDGED, total(DEPLOYMENT, judged)),
        Recording(_FAILED, f"{_failed('5m')} or {_JUDGED} * 0"),
        Recording(_OFFERED, total(DEPLOYMENT, offered)),
        Recording(_TURNED_AWAY, f"{_turned_away('5m', 'rate')} or {_OFFERED} * 0"),
    )


def _quantiles() -> tuple[Recording, ...]:
    return tuple(
        Recording(
            _quantile_name(burn, window),
            f"histogram_quantile({_quantile(burn)}, avg_over_time({_BUCKET}[{window}]))",
        )
        for burn in BURNS
        for window in (burn.long, burn.short)
    )


def _ratios() -> tuple[Recording, ...]:
    return tuple(
        Recording(
            f"tidegate:{what}:ratio_{window}",
            f"sum_over_time({part}[{window}]) / (sum_over_time({whole}[{window}]) > 0)",
        )
        for what, part, whole, windows in (
            ("unavailability", _FAILED, _JUDGED, _WINDOWS),
            ("top_class_refused", _TURNED_AWAY, _OFFERED, ("5m", "1h")),
        )
        for window in windows
    )


def _ttft_burn(burn: Burn) -> Alert:
    objective = most(DEPLOYMENT, operators("tidegate_slo_seconds", 'objective="ttft"'))
    told = gates("tidegate_gate_ttft_seconds_count")
    count = total(DEPLOYMENT, f"increase({told}[{burn.long}])")
    late = " and ".join(
        f"{_quantile_name(burn, window)} > on ({DEPLOYMENT}) {objective}"
        for window in (burn.long, burn.short)
    )
    return Alert(
        name="TTFTBurn",
        promql=f"{late} and on ({DEPLOYMENT}) {count} >= {LEAST_REQUESTS}",
        severity=burn.severity,
        for_seconds=burn.for_seconds,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: first tokens are late",
        description=(
            f"More than {burn.times * TTFT_BUDGET * 100:.0f} % of the requests of the last "
            f"{burn.long} and of the last {burn.short} were later than spec.slo.timeToFirstToken: "
            f"the budget of {TTFT_BUDGET * 100:.0f} % is spent {burn.times:g} times too fast. "
            f"{_quantile(burn) * 100:.0f} % of them waited up to "
            "{{ $value | humanizeDuration }}."
        ),
        burn=burn.label,
    )


def _availability_burn(burn: Burn) -> Alert:
    bound = f"on () group_left () clamp_max({burn.times:g} * {AVAILABILITY_BUDGET}, {MOST_FAILING})"
    failures = _failed(burn.long, "increase")
    ratios = " and ".join(
        f"tidegate:unavailability:ratio_{window} > {bound}" for window in (burn.long, burn.short)
    )
    return Alert(
        name="AvailabilityBurn",
        promql=f"{ratios} and on ({DEPLOYMENT}) {failures} >= {LEAST_FAILURES}",
        severity=burn.severity,
        for_seconds=burn.for_seconds,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: requests fail",
        description=(
            f"{{{{ $value | humanizePercentage }}}} of the requests of the last {burn.long} "
            f"failed, and as many of the last {burn.short}: the budget that the objective leaves "
            f"is spent {burn.times:g} times too fast, or nearly all fail. Requests that were "
            "turned away to protect others do not count."
        ),
        burn=burn.label,
    )


def _top_class() -> Alert:
    burn = BURNS[0]
    bound = f"{burn.times * TOP_CLASS_BUDGET:g}"
    ratios = " and ".join(
        f"tidegate:top_class_refused:ratio_{window} > {bound}" for window in (burn.long, burn.short)
    )
    refused = _turned_away(burn.long, "increase")
    return Alert(
        name="SheddingTopClass",
        promql=f"{ratios} and on ({DEPLOYMENT}) {refused} >= {LEAST_FAILURES}",
        severity="critical",
        for_seconds=burn.for_seconds,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: requests of the top class are turned away",
        description=(
            "{{ $value | humanizePercentage }} of the requests of class 9 of the last hour were "
            "turned away for want of capacity. No lower class is left to make room."
        ),
        burn=burn.label,
    )


def _tpot() -> Alert:
    objective = most(DEPLOYMENT, operators("tidegate_slo_seconds", 'objective="tpot"'))
    count = gates("tidegate_gate_inter_token_seconds_count")
    tokens = total(DEPLOYMENT, f"increase({count}[5m])")
    return Alert(
        name="TPOTHigh",
        promql=(
            f"tidegate:tpot_seconds:p95_5m > on ({DEPLOYMENT}) {objective} "
            f"and on ({DEPLOYMENT}) {tokens} >= {LEAST_REQUESTS}"
        ),
        severity="warning",
        for_seconds=10 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: tokens come slowly",
        description=(
            "p95 of the time between two tokens is {{ $value | humanizeDuration }}, above "
            "spec.slo.timePerOutputToken, for 10 minutes."
        ),
    )


def _survival() -> Alert:
    return Alert(
        name="SurvivalLow",
        promql=(
            f"tidegate:survival:ratio_rate15m < {SURVIVAL} "
            f"and on ({DEPLOYMENT}) {losses('15m')} >= {LEAST_FAILURES}"
        ),
        severity="critical",
        for_seconds=5 * _MINUTE,
        keep_seconds=5 * _MINUTE,
        summary=f"{NAME}: admitted requests are lost",
        description=(
            "Only {{ $value | humanizePercentage }} of the requests that were admitted in the "
            "last 15 minutes ended well; the others failed at an engine, ran out of time, or were "
            "cut by a gate that stopped."
        ),
    )


def _quantile(burn: Burn) -> float:
    return round(1 - burn.times * TTFT_BUDGET, 2)


def _quantile_name(burn: Burn, window: str) -> str:
    return f"tidegate:ttft_seconds:p{_quantile(burn) * 100:.0f}_{window}"


def _turned_away(window: str, function: str) -> str:
    return total(DEPLOYMENT, _refused(LOAD_REASONS, window, function, f", {_TOP}"))


def _failed(window: str, function: str = "rate") -> str:
    own, refused = _requests(LOST, window, function), _refused(FAULT_REASONS, window, function)
    return total(DEPLOYMENT, f"{own} or {refused}")


def _requests(outcomes: str, window: str = "5m", function: str = "rate", matchers: str = "") -> str:
    more = f", {matchers}" if matchers else ""
    of_them = gates(ENDED, f'outcome=~"{outcomes}"{more}')
    return f"{function}({of_them}[{window}])"


def _refused(reasons: str, window: str = "5m", function: str = "rate", matchers: str = "") -> str:
    return _requests("refused", window, function, f'reason=~"{reasons}"{matchers}')
