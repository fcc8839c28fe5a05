"""A look at a canary as people read it: its values beside the stable ones, in their units."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.api.rollout_history import MetricLook, RolloutLook
from tidegate.core.analysis import comparison
from tidegate.core.analysis.evidence import Metric

COLUMNS = (
    # (heading, whether its cells are numbers)
    ("METRIC", False),
    ("CANARY", True),
    ("STABLE", True),
    ("CHANGE", True),
    ("BOUND", False),
    ("SAMPLES", True),
    ("OF STABLE", True),
    ("VERDICT", False),
)
UNKNOWN = "-"
_PERCENT = 100.0


@dataclass(frozen=True)
class _Unit:
    """How a metric is written: a value, how two differ, and the two kinds of bound."""

    value: Callable[[float], str]
    change: Callable[[float, float], str]
    absolute: Callable[[float], str]
    margin: Callable[[float], str]


def rows(look: RolloutLook) -> list[tuple[str, ...]]:
    """Return a row of cells for each metric of a look, under `COLUMNS`."""
    return [_row(one) for one in look.metrics]


def _row(one: MetricLook) -> tuple[str, ...]:
    unit = _UNITS.get(one.metric, _PLAIN)
    is_known = one.canary is not None and one.stable is not None
    return (
        one.metric,
        _cell(unit.value, one.canary),
        _cell(unit.value, one.stable),
        unit.change(one.canary or 0.0, one.stable or 0.0) if is_known else UNKNOWN,
        _bound(unit, one),
        f"{one.samples:,.0f}",
        _cell("{:,.0f}".format, one.stable_samples),
        one.verdict,
    )


def _bound(unit: _Unit, one: MetricLook) -> str:
    told = [unit.absolute(one.absolute)] if one.absolute is not None else []
    told += [unit.margin(one.margin)] if one.margin is not None else []
    return ", ".join(told) or UNKNOWN


def _cell(write: Callable[[float], str], value: float | None) -> str:
    return UNKNOWN if value is None else write(value)


def _seconds(value: float) -> str:
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def _share(value: float) -> str:
    return f"{_PERCENT * value:.2f} %"


def _rate(value: float) -> str:
    return f"{comparison.rate(value)} per 1,000"


def _points(value: float) -> str:
    return f"{value:+.1f} %"


def _growth(value: float) -> str:
    return f"{value:+.1f} %/h"


def _relative(canary: float, stable: float) -> str:
    return f"{_PERCENT * (canary / stable - 1):+.1f} %" if stable else UNKNOWN


_TIME = _Unit(
    value=_seconds,
    change=_relative,
    absolute=lambda bound: f"<= {_seconds(bound)}",
    margin=lambda bound: f"+{_PERCENT * bound:g} %",
)
_COUNT = _Unit(
    value=_rate,
    change=lambda canary, stable: f"{canary - stable:+.3g}",
    absolute=lambda bound: f"<= {_rate(bound)}",
    margin=lambda bound: f"+{_PERCENT * bound:g} %",
)
_PLAIN = _Unit(
    value="{:.4g}".format,
    change=lambda canary, stable: f"{canary - stable:+.3g}",
    absolute="{:.4g}".format,
    margin="{:+.4g}".format,
)
_UNITS: Mapping[str, _Unit] = {
    Metric.TTFT_P50: _TIME,
    Metric.TTFT_P95: _TIME,
    Metric.TPOT_P50: _TIME,
    Metric.TPOT_P95: _TIME,
    Metric.SURVIVAL: _Unit(
        value=_share,
        change=lambda canary, stable: f"{_PERCENT * (canary - stable):+.2f} points",
        absolute=lambda bound: f">= {_PERCENT * bound:g} %",
        margin=lambda bound: f"-{_PERCENT * bound:g} points",
    ),
    Metric.REFUSALS: _COUNT,
    Metric.ABANDONMENTS: _COUNT,
    Metric.RESTARTS: _COUNT,
    Metric.PREEMPTIONS: _COUNT,
    Metric.PREFIX_HIT_RATE: _Unit(
        value=_share,
        change=lambda canary, stable: f"{_PERCENT * (canary - stable):+.2f} points",
        absolute=_share,
        margin=lambda bound: f"-{_PERCENT * bound:g} points",
    ),
    Metric.KV_DRIFT: _Unit(
        value=_points,
        change=lambda canary, stable: f"{canary - stable:+.1f} points",
        absolute=lambda bound: f">= -{bound:g} %",
        margin=lambda bound: f"-{bound:g} points",
    ),
    Metric.MEMORY_GROWTH: _Unit(
        value=_growth,
        change=lambda canary, stable: f"{canary - stable:+.1f} points",
        absolute=lambda bound: f"<= {bound:g} %/h",
        margin=lambda bound: f"+{bound:g} %/h",
    ),
}
