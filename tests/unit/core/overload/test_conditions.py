"""The loop's conditions: what they say, and that they do not move while nothing does."""

import pytest

from tidegate.api.conditions import Condition
from tidegate.api.reasons import Reason
from tidegate.core.overload import conditions
from tidegate.core.overload.complete import complete
from tidegate.core.overload.decision import Decision
from tidegate.core.overload.signal import Sample, Unknown

from .loops import BACKLOG, GONE, KV, START, Loop, lever, spec

GOOD = Sample(0.5, START)


@pytest.mark.parametrize(
    ("decision", "status", "reason"),
    [
        (Decision(), "False", "WithinThresholds"),
        (Decision("Overloaded", reason=Reason.OVER_THRESHOLD), "True", "OverThreshold"),
        (Decision("Overloaded", reason=Reason.LETTING_GO), "True", "LettingGo"),
        (Decision("Normal", shed_percent=10, reason=Reason.LETTING_GO), "False", "LettingGo"),
        (Decision("Override", reason=Reason.OVERRIDE_ACTIVE), "Unknown", "OverrideActive"),
        (Decision("Normal", reason=Reason.METRICS_STALE), "Unknown", "MetricsStale"),
    ],
)
def test_overloaded_is_unknown_where_nobody_judges(decision, status, reason):
    verdict = conditions.overloaded(decision)

    assert (verdict.type, verdict.status, verdict.reason) == ("Overloaded", status, reason)


def test_traffic_shifted_names_the_share_and_the_target():
    made = Loop(spec(shift={"to": "spill"})).look(kv=1.0)

    verdict = conditions.traffic_shifted(made)

    assert (verdict.status, verdict.reason) == ("True", Reason.SHIFTING)
    assert verdict.message == "20 % of the requests are served by spill"
    assert conditions.traffic_shifted(Decision()).status == "False"


@pytest.mark.parametrize(
    ("signals", "silent", "status", "reason", "says"),
    [
        pytest.param(
            {KV: GOOD, BACKLOG: GOOD}, None, "True", "MetricsFresh", "kvUsage of pool decode",
            id="all is known",
        ),
        pytest.param(
            {KV: GOOD, BACKLOG: GONE}, None, "False", "MetricsStale",
            "prefillBacklog of pool prefill: the newest sample is 47 s old; shares hold for 300 s",
            id="one is not",
        ),
        pytest.param({}, None, "False", "MetricsMissing", "nothing is known", id="nothing is told"),
        pytest.param(
            {}, Unknown(Reason.METRICS_UNREACHABLE, "no answer within 3 s"), "False",
            "MetricsUnreachable", "no answer within 3 s; shares hold", id="Prometheus is down",
        ),
        pytest.param(
            {}, Unknown(Reason.METRICS_UNCONFIGURED, "prometheus.url is not set"), "Unknown",
            "MetricsUnconfigured", "prometheus.url is not set", id="there is no Prometheus",
        ),
    ],
)  # fmt: skip
def test_metrics_available_says_what_is_not_known_and_what_holds_then(
    signals, silent, status, reason, says
):
    verdict = conditions.metrics_available(spec(), signals, silent)

    assert (verdict.status, verdict.reason) == (status, reason)
    assert says in verdict.message


def test_nothing_is_said_to_hold_where_there_is_no_share():
    gone = Unknown(Reason.METRICS_UNREACHABLE, "no answer within 3 s")

    for signals, silent in (({}, gone), ({KV: GOOD, BACKLOG: GONE}, None)):
        verdict = conditions.metrics_available(spec(), signals, silent, has_shares=False)
        assert verdict.message.endswith("; the gates' own token cap protects")


def test_what_is_missing_is_named_once():
    signals = complete(None, ["unified"], None)

    verdict = conditions.metrics_available(spec(), signals, None)

    assert verdict.message.count("kvUsage") == 1
    assert "kvUsage of pool unified: Prometheus has no series of it" in verdict.message


def test_an_age_that_grows_is_no_news():
    def told(seconds):
        stale = Unknown(Reason.METRICS_STALE, f"the newest sample is {seconds} s old")
        return conditions.metrics_available(spec(), {KV: stale}, None)

    first = told(47)
    stored = Condition(
        type="MetricsAvailable",
        status=first.status,
        reason=first.reason,
        message=first.message,
        observed_generation=1,
        last_transition_time="2027-01-15T08:00:00Z",
    )

    assert conditions.steady(told(52.5), stored) == first
    other = conditions.metrics_available(spec(), {KV: GOOD, BACKLOG: GONE}, None)
    assert conditions.steady(other, stored) == other
    assert conditions.steady(told(52), None) == told(52)


def test_a_lever_is_told_by_the_condition_too():
    made = Loop(spec(override=lever("Open"))).look(kv=1.0)

    assert "Open set until" in conditions.overloaded(made).message
