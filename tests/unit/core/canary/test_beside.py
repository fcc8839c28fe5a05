"""A look at a canary, read by people: each metric in its own unit, and nothing invented."""

import pytest

from tidegate.api.rollout_history import MetricLook, RolloutLook
from tidegate.core.analysis.evidence import Metric
from tidegate.core.canary import beside


def row(metric, **told):
    one = MetricLook(
        metric=str(metric), verdict="Pass", samples=1234, stable_samples=98_765, **told
    )
    look = RolloutLook(
        at="2027-01-15T08:00:00Z",
        revision="bbbb",
        stable="aaaa",
        step=1,
        weight_percent=5,
        verdict="Pass",
        metrics=[one],
    )
    [cells] = beside.rows(look)
    return dict(zip((name for name, _ in beside.COLUMNS), cells, strict=True))


@pytest.mark.parametrize(
    ("metric", "told", "cells"),
    [
        (Metric.TTFT_P95, {"canary": 0.9, "stable": 0.6, "absolute": 1.5, "margin": 0.2},
         ("900 ms", "600 ms", "+50.0 %", "<= 1.5 s, +20 %")),
        (Metric.TPOT_P50, {"canary": 0.045, "stable": 0.05, "margin": 0.1},
         ("45 ms", "50 ms", "-10.0 %", "+10 %")),
        (Metric.SURVIVAL, {"canary": 0.97, "stable": 0.995, "margin": 0.02},
         ("97.00 %", "99.50 %", "-2.50 points", "-2 points")),
        (Metric.RESTARTS, {"canary": 2.5, "stable": 0.0, "margin": 1.0},
         ("2.5 per 1,000", "0 per 1,000", "+2.5", "+100 %")),
        (Metric.REFUSALS, {"canary": 1000.0, "stable": 12.5, "margin": 0.5},
         ("1,000 per 1,000", "12.5 per 1,000", "+988", "+50 %")),
        (Metric.KV_DRIFT, {"canary": -12.0, "stable": -1.0, "absolute": 10.0},
         ("-12.0 %", "-1.0 %", "-11.0 points", ">= -10 %")),
        (Metric.MEMORY_GROWTH, {"canary": 8.0, "stable": 0.5, "margin": 6.0},
         ("+8.0 %/h", "+0.5 %/h", "+7.5 points", "+6 %/h")),
        (Metric.PREFIX_HIT_RATE, {"canary": 0.25, "stable": 0.5},
         ("25.00 %", "50.00 %", "-25.00 points", "-")),
        ("newer", {"canary": 1.0, "stable": 2.0, "margin": 0.5}, ("1", "2", "-1", "+0.5")),
    ],
)  # fmt: skip
def test_each_metric_has_its_unit(metric, told, cells):
    shown = row(metric, **told)
    assert tuple(shown[name] for name in ("CANARY", "STABLE", "CHANGE", "BOUND")) == cells
    assert (shown["SAMPLES"], shown["OF STABLE"]) == ("1,234", "98,765")


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("known", [{}, {"canary": 0.5}, {"stable": 0.5}])
def test_what_is_not_known_is_no_number_and_no_change(metric, known):
    shown = row(metric, **known)
    assert shown["CHANGE"] == "-"
    assert [shown[side.upper()] == "-" for side in ("canary", "stable")] == [
        side not in known for side in ("canary", "stable")
    ]


@pytest.mark.parametrize("metric", Metric)
def test_against_a_stable_value_of_zero_nothing_is_divided(metric):
    assert row(metric, canary=1.0, stable=0.0)["CHANGE"]
