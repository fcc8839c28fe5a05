import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gate.core import health
from tidegate.gate.core.health import Health

PODS = ["a", "b", "c", "d"]


def pool(names=PODS, now=0.0):
    held = Health()
    held.present(names, now)
    return held


def fail(held, name, now, times=health.FAILURES_IN_A_ROW):
    for _ in range(times):
        held.failed(name, now)


def test_a_pod_is_ejected_after_failures_in_a_row_and_comes_back():
    held = pool()
    fail(held, "a", 100, health.FAILURES_IN_A_ROW - 1)
    assert not held.is_ejected("a", 100)

    fail(held, "a", 100, 1)

    assert held.is_ejected("a", 100)
    assert held.is_ejected("a", 100 + health.EJECTED_SECONDS - 0.01)
    assert not held.is_ejected("a", 100 + health.EJECTED_SECONDS)


def test_a_good_answer_between_failures_forgives_them():
    held = pool()
    for _ in range(10):
        fail(held, "a", 100, health.FAILURES_IN_A_ROW - 1)
        held.succeeded("a", None, 100)

    assert not held.is_ejected("a", 100)


def test_nobody_at_the_address_ejects_at_once_for_a_moment():
    held = pool()

    held.failed("a", 100, unreachable=True)

    assert held.is_ejected("a", 100)
    assert not held.is_ejected("a", 100 + health.UNREACHABLE_SECONDS)


def test_who_fails_again_on_probation_is_out_for_longer_each_time():
    held, now, lasted = pool(), 0.0, []
    fail(held, "a", now)
    for _ in range(8):
        began = now
        while held.is_ejected("a", now):
            now += 0.5
        lasted.append(now - began)
        held.failed("a", now)

    assert lasted == [5, 10, 20, 40, 60, 60, 60, 60]


def test_one_that_fails_for_days_is_left_out_and_tried_each_minute():
    held = pool()
    for minute in range(3 * 24 * 60):
        now = minute * (health.LONGEST_EJECTION_SECONDS + 1)
        assert not held.is_ejected("a", now)
        held.failed("a", now, unreachable=True)

    assert held.is_ejected("a", now + health.LONGEST_EJECTION_SECONDS - 1)


def test_good_answers_on_probation_make_a_pod_as_good_as_any():
    held = pool()
    fail(held, "a", 0)
    for _ in range(health.PROVEN_BY):
        held.succeeded("a", None, 20)

    held.failed("a", 30)

    assert not held.is_ejected("a", 30)


def test_a_pod_that_comes_back_or_is_new_gets_its_share_slowly():
    held = pool(now=-1000.0)
    fail(held, "a", 0)
    held.present([*PODS, "new"], 0)
    back = health.EJECTED_SECONDS
    whole = health.SLOW_START_SECONDS

    assert held.share("b", 0) == 1
    assert held.share("new", 0) == health.SLOW_START_LEAST
    assert held.share("new", whole / 2) == pytest.approx(0.5)
    assert held.share("new", whole) == 1
    assert held.share("a", back) == health.SLOW_START_LEAST
    assert held.share("a", back + whole) == 1
    assert not held.is_settled(back + whole - 1)
    assert held.is_settled(back + whole)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9, 1.0])
def test_a_share_of_the_calls_is_exact(share):
    held = pool()

    let = [held.lets("a", share) for _ in range(1000)]

    for start in range(0, 900, 50):
        assert sum(let[start : start + 100]) == pytest.approx(100 * share, abs=1)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_never_more_than_half_of_a_pool_is_out(count):
    names = [f"pod-{number}" for number in range(count)]
    held = pool(names)
    for name in names:
        fail(held, name, 10)
        held.failed(name, 10, unreachable=True)

    assert sum(held.is_ejected(name, 10) for name in names) == count // 2


def test_one_far_slower_than_the_others_is_ejected():
    held = pool()
    for _ in range(20):
        for name in "abc":
            held.succeeded(name, 0.3, 10)
        held.succeeded("d", 4.0, 10)

    assert [name for name in PODS if held.is_ejected(name, 10)] == ["d"]


@pytest.mark.parametrize(
    ("slow", "usual"),
    [(0.9, 0.01), (1.2, 0.5), (4.0, 1.0)],
    ids=["small times differ by any factor", "not by a second", "not by the factor"],
)
def test_one_that_is_a_little_slower_stays(slow, usual):
    held = pool()
    for _ in range(20):
        for name in "abc":
            held.succeeded(name, usual, 10)
        held.succeeded("d", slow, 10)

    assert not any(held.is_ejected(name, 10) for name in PODS)


def test_when_all_are_slow_none_is_an_outlier():
    held = pool()
    for _ in range(20):
        for name in PODS:
            held.succeeded(name, 30.0, 10)

    assert not any(held.is_ejected(name, 10) for name in PODS)


def test_a_pod_that_was_away_begins_anew():
    held = pool()
    fail(held, "a", 10)
    held.present(["b", "c", "d"], 11)

    held.present(PODS, 12)

    assert not held.is_ejected("a", 12)
    assert held.share("a", 12) == health.SLOW_START_LEAST


def test_of_a_pod_that_is_not_there_nothing_is_held():
    held = pool()
    held.failed("ghost", 1, unreachable=True)
    held.succeeded("ghost", 9.0, 1)

    assert not held.is_ejected("ghost", 1)
    assert held.share("ghost", 1) == 1


EVENTS = st.tuples(
    st.sampled_from(["failed", "unreachable", "succeeded", "slow", "present"]),
    st.sampled_from(PODS),
    st.floats(0, 30),
)


@given(st.lists(EVENTS, max_size=120))
def test_whatever_happens_half_of_the_pool_stays_and_all_come_back(events):
    held, now = pool(), 0.0
    for event, name, passes in events:
        now += passes
        if event == "failed":
            held.failed(name, now)
        elif event == "unreachable":
            held.failed(name, now, unreachable=True)
        elif event == "present":
            held.present(PODS, now)
        else:
            held.succeeded(name, 20.0 if event == "slow" else 0.1, now)
        assert sum(held.is_ejected(pod, now) for pod in PODS) <= len(PODS) // 2

    later = now + health.LONGEST_EJECTION_SECONDS + health.SLOW_START_SECONDS
    assert held.is_settled(later)
    assert all(held.share(pod, later) == 1 for pod in PODS)
