"""Burn rates: how fast a budget may be spent, and over which windows."""

import pytest

from tidegate.core.monitoring import objectives, rules
from tidegate.core.monitoring.rule import Alert, Recording

SECONDS = {
    "5m": 300,
    "30m": 1800,
    "1h": 3600,
    "2h": 7200,
    "6h": 21_600,
    "1d": 86_400,
    "3d": 259_200,
}


@pytest.mark.parametrize("burn", objectives.BURNS, ids=lambda burn: burn.label)
def test_the_short_window_is_a_small_part_of_the_long_one(burn):
    assert SECONDS[burn.long] == 12 * SECONDS[burn.short]


@pytest.mark.parametrize("burn", objectives.BURNS, ids=lambda burn: burn.label)
def test_the_late_beyond_the_quantile_are_the_budget_times_the_speed(burn):
    share = burn.times * objectives.TTFT_BUDGET
    name = f"tidegate:ttft_seconds:p{(1 - share) * 100:.0f}_{burn.long}"
    (recording,) = (rule for rule in rules.recordings() if rule.name == name)

    assert 0 < share < 1, "a budget that cannot be spent so fast never wakes anybody"
    assert f"histogram_quantile({round(1 - share, 2)}, " in recording.promql


def test_faster_spending_is_seen_sooner_and_wakes_somebody():
    times = [burn.times for burn in objectives.BURNS]
    windows = [SECONDS[burn.long] for burn in objectives.BURNS]

    assert times == sorted(times, reverse=True)
    assert windows == sorted(windows)
    assert [burn.severity for burn in objectives.BURNS[:2]] == ["critical", "critical"]


def test_what_is_recorded_comes_before_what_builds_on_it():
    known = set()
    for group in rules.groups():
        for rule in group.rules:
            names = {recording.name for recording in rules.recordings()}
            used = {name for name in names if name in rule.promql and name + "_" not in rule.promql}
            later = used - known - ({rule.name} if isinstance(rule, Recording) else set())
            assert not later, (rule.name, later)
            if isinstance(rule, Recording):
                known.add(rule.name)


def test_no_two_recordings_have_one_name_and_labels():
    recorded = [(rule.name, rule.lever) for rule in rules.recordings()]
    assert len(set(recorded)) == len(recorded)


def test_alerts_of_one_name_are_told_apart():
    alerts = [(rule.name, rule.burn) for rule in rules.alerts()]
    assert len(set(alerts)) == len(alerts)


def test_an_alert_that_wakes_somebody_does_not_flap():
    waking = [alert for alert in rules.alerts() if alert.severity == "critical"]

    assert waking
    assert all(isinstance(alert, Alert) and alert.keep_seconds >= 60 for alert in waking)
