import dataclasses
from collections import Counter
from datetime import UTC, datetime
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gate.core.asking import asked, chat

from tidegate.api.gate_config import GateConfig, RevisionConfig, ShedShare, ShiftShare
from tidegate.gate.core import choice, health
from tidegate.gate.core.choice import Choice
from tidegate.gate.exchange import Caller, Pod, Scrape, Shift, Why

ASK = asked(chat())
PREFIXES = [blake2b(bytes([number]), digest_size=8).digest() for number in range(200)]


def config(pair=False, revisions=None, **fields):
    services = ("prefill", "decode") if pair else ("unified",)
    weights = {"r1": 100} if revisions is None else revisions
    return GateConfig(
        namespace="chat",
        deployment="tiny",
        generation=1,
        models=["tiny"],
        max_model_len=1024,
        gate_service="tiny",
        services={pool: f"tiny-{pool}" for pool in services},
        revisions=[RevisionConfig(name=name, weight=weight) for name, weight in weights.items()],
        **fields,
    )


def pod(name, pool="unified", revision="r1", terminating=False):
    return Pod(name, f"10.0.0.{len(name)}", 8000, pool, revision, "slice", terminating)


def pods(count, **fields):
    return [pod(f"pod-{number}", **fields) for number in range(count)]


def chosen(held=None, settings=None, now=0.0):
    made = Choice()
    made.configure(settings or config(), now)
    made.endpoints("unified", pods(4) if held is None else held, now)
    return made


def names(made, prefix=b"", loads=None, now=1000.0, pool="unified", revision="r1"):
    load = (loads or {}).get
    found = made.candidates(pool, revision, prefix, lambda one: load(one.name, 0.0), now)
    return [one.name for one in found]


# Candidates


def test_without_a_prefix_the_emptiest_pod_comes_first():
    loads = {"pod-0": 0.4, "pod-1": 0.1, "pod-2": 0.3, "pod-3": 0.2}

    assert names(chosen(), loads=loads) == ["pod-1", "pod-3", "pod-2", "pod-0"]


def test_equally_empty_pods_take_turns():
    made = chosen()

    assert Counter(names(made)[0] for _ in range(400)) == dict.fromkeys(
        ("pod-0", "pod-1", "pod-2", "pod-3"), 100
    )


@pytest.mark.parametrize("prefix", PREFIXES[:10])
def test_equal_prefixes_go_to_one_pod_while_it_has_room(prefix):
    made = chosen()
    owner = names(made, prefix)[0]

    loads = dict.fromkeys(("pod-0", "pod-1", "pod-2", "pod-3"), 0.5) | {owner: 0.6}
    assert {names(made, prefix, loads)[0] for _ in range(8)} == {owner}


@pytest.mark.parametrize("prefix", PREFIXES[:10])
def test_a_hot_prefix_spreads_to_the_next_on_the_ring(prefix):
    made = chosen()
    owner = names(made, prefix)[0]
    others = {"pod-0", "pod-1", "pod-2", "pod-3"} - {owner}

    hot = dict.fromkeys(others, 0.4) | {owner: 0.9}
    stand_in = {names(made, prefix, hot)[0] for _ in range(8)}

    assert len(stand_in) == 1
    assert owner not in stand_in
    assert names(made, prefix, hot)[-1] == owner


def test_while_all_is_quiet_a_prefix_stays_where_it_is_cached():
    made = chosen()
    owner = names(made, PREFIXES[0])[0]

    assert names(made, PREFIXES[0], {owner: choice.QUIET_LOAD})[0] == owner


@given(loads=st.lists(st.floats(0, 2), min_size=4, max_size=4), prefix=st.sampled_from(PREFIXES))
def test_the_first_candidate_is_never_over_the_bound_and_none_is_lost(loads, prefix):
    by_name = {f"pod-{number}": load for number, load in enumerate(loads)}

    found = names(chosen(), prefix, by_name)

    assert sorted(found) == sorted(by_name)
    mean = sum(loads) / 4
    assert by_name[found[0]] <= max(1.25 * mean, choice.QUIET_LOAD) + 1e-9
    rest = [by_name[name] for name in found[1:]]
    assert rest == sorted(rest)


def test_a_terminating_pod_gets_nothing_from_the_moment_it_is_told():
    made = chosen()
    made.endpoints("unified", [*pods(3), pod("pod-3", terminating=True)], 1.0)

    assert sorted(names(made)) == ["pod-0", "pod-1", "pod-2"]


def test_other_pools_and_revisions_are_not_mixed_in():
    held = [*pods(2), pod("other", revision="r2")]
    made = chosen(held, config(revisions={"r1": 50, "r2": 50}))

    assert sorted(names(made)) == ["pod-0", "pod-1"]
    assert names(made, revision="r2") == ["other"]
    assert names(made, revision="r3") == []
    assert names(made, pool="decode") == []


def test_a_pod_that_fails_is_left_out_and_comes_back():
    made = chosen()
    for _ in range(health.FAILURES_IN_A_ROW):
        made.failed("pod-2", 1000)

    assert "pod-2" not in names(made, now=1000)
    assert made.is_ejected("pod-2", 1000)
    later = 1000 + health.EJECTED_SECONDS
    assert "pod-2" in names(made, now=later)
    assert not made.is_ejected("pod-2", later)


def test_after_one_failed_connection_nothing_more_is_sent_for_a_moment():
    made = chosen()

    made.failed("pod-2", 1000, unreachable=True)

    assert "pod-2" not in names(made, now=1000)


def test_when_all_fail_half_of_the_pool_stays():
    made = chosen()
    for one in pods(4):
        made.failed(one.name, 1000, unreachable=True)

    assert len(names(made, now=1000)) == 2


def test_pods_of_revisions_without_weight_do_not_count_as_what_stays():
    held = [pod("only"), *pods(5, revision="old")]
    made = chosen(held, config(revisions={"r1": 1, "old": 0}))

    made.failed("only", 1000, unreachable=True)

    assert names(made, now=1000) == ["only"]


def test_a_new_pod_gets_a_tenth_and_then_its_share():
    made = chosen(pods(3))
    made.endpoints("unified", pods(4), 1000)
    loads = dict.fromkeys(("pod-0", "pod-1", "pod-2"), 0.5) | {"pod-3": 0.0}

    def share(now):
        return sum(names(made, loads=loads, now=now)[0] == "pod-3" for _ in range(200)) / 200

    assert share(1000) == pytest.approx(0.1, abs=0.01)
    assert share(1015) == pytest.approx(0.5, abs=0.01)
    assert share(1030) == 1


def test_a_new_pod_that_is_held_back_is_the_last_resort():
    made = chosen(pods(3))
    made.endpoints("unified", pods(4), 1000)

    assert names(made, loads={"pod-0": 0.9}, now=1000)[-1] == "pod-3"


def test_where_all_pods_are_new_none_is_held_back():
    made = chosen(pods(4), now=1000)

    assert Counter(names(made, now=1000)[0] for _ in range(400)) == dict.fromkeys(
        ("pod-0", "pod-1", "pod-2", "pod-3"), 100
    )


# Revisions


@pytest.mark.parametrize(
    ("prefill", "decode", "missing"),
    [
        ({"r1"}, {"r1"}, None),
        ({"r1", "r2"}, {"r2"}, None),
        (set(), set(), Why.NO_ENDPOINTS),
        ({"r1"}, set(), Why.NO_DECODE),
        (set(), {"r1"}, Why.NO_PREFILL),
        ({"r1"}, {"r2"}, Why.NO_DECODE),
        ({"old"}, {"old"}, Why.NO_ENDPOINTS),
        ({"unnamed"}, {"unnamed"}, Why.NO_ENDPOINTS),
    ],
)
def test_a_pair_is_complete_when_one_revision_has_both(prefill, decode, missing):
    made = Choice()
    made.configure(config(pair=True, revisions={"r1": 50, "r2": 50, "old": 0}), 0)
    for pool, revisions in (("prefill", prefill), ("decode", decode)):
        made.endpoints(pool, [pod(f"{pool}-{r}", pool, r) for r in sorted(revisions)], 0)

    assert made.complete() is missing
    for pool, revisions in (("prefill", prefill), ("decode", decode)):
        assert made.has_ready(pool) is bool(revisions & {"r1", "r2"})
    assert set(made.revisions(ASK)) == (set() if missing else prefill & decode)


def test_before_anything_is_known_there_are_no_endpoints():
    assert Choice().complete() is Why.NO_ENDPOINTS
    assert Choice().revisions(ASK) == []


def test_the_last_pod_that_terminates_leaves_no_endpoints():
    made = chosen(pods(1))
    assert made.complete() is None

    made.endpoints("unified", [pod("pod-0", terminating=True)], 1)

    assert made.complete() is Why.NO_ENDPOINTS


def test_new_weights_hold_at_once():
    held = [pod("a"), pod("b", revision="r2")]
    made = chosen(held, config(revisions={"r1": 100, "r2": 0}))
    assert made.revisions(ASK) == ["r1"]

    made.configure(config(revisions={"r1": 0, "r2": 100}), 1)

    assert made.revisions(ASK) == ["r2"]


# Shares


def asks(count, priority=5, shifted=False):
    for number in range(count):
        yield dataclasses.replace(
            ASK,
            request_id=f"id-{number}",
            serial=number + 1,
            caller=Caller("anonymous", priority),
            shifted=shifted,
        )


def shared(settings, wall=0.0, **fields):
    made = chosen(settings=settings)
    return Counter(made.share(ask, settings, wall) for ask in asks(1000, **fields))


def moment(wall):
    return datetime.fromtimestamp(wall, UTC)


@pytest.mark.parametrize(
    ("shed", "shift"), [(20, 0), (0, 35), (20, 35), (50, 50), (12.5, 60), (95, 5), (0, 100)]
)
def test_shed_and_shifted_requests_are_exact_over_a_thousand(shed, shift):
    settings = config(shed=ShedShare(percent=shed), shift=ShiftShare(to="spill", percent=shift))

    drawn = shared(settings)

    assert drawn[Why.SHED] == pytest.approx(shed * 10, abs=2)
    assert drawn[Shift("spill")] == pytest.approx(shift * 10, abs=2)


def test_shares_lapse_by_themselves():
    settings = config(
        shed=ShedShare(percent=50, until=moment(100)),
        shift=ShiftShare(to="spill", percent=50, until=moment(200)),
    )

    assert shared(settings, wall=150).keys() == {None, Shift("spill")}
    assert shared(settings, wall=200).keys() == {None}


def test_classes_from_the_floor_up_are_shifted_and_never_shed():
    settings = config(
        shed=ShedShare(percent=100, floor=7), shift=ShiftShare(to="spill", percent=25, port=8080)
    )

    assert shared(settings, priority=6).keys() == {Why.SHED, Shift("spill", 8080)}
    assert shared(settings, priority=7).keys() == {None, Shift("spill", 8080)}


def test_what_another_gate_sent_is_not_sent_on():
    settings = config(shift=ShiftShare(to="spill", percent=100))

    assert shared(settings, shifted=True).keys() == {None}


def test_without_shares_all_requests_stay():
    assert shared(config()).keys() == {None}


# What is shown


def test_the_hit_rate_of_the_prefix_caches_is_shown():
    made = chosen()
    for queries, hits in ((0, 0), (20_000, 500)):
        made.observe("pod-0", Scrape(0.0, prefix_queries=queries, prefix_hits=hits))

    assert made.hit_rate("pod-0") == 0.025
    assert made.hit_rate("pod-1") is None
    assert made.affinity_pays() is False
