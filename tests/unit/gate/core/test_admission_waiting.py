"""Who waits, who is next, and for how long."""

import pytest
from tests.unit.gate.core import doubles

from tidegate.api.gate_config import Limits, Slo
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.exchange import Outcome, Refusal, Seat, Usage, Why


def full_gate(inside=10, **settings):
    """A gate in front of a pod that holds `inside` requests of 100 + 60 tokens, and no more."""
    defaults = {
        "limits": Limits(max_queue=100, queue_timeout="5s"),
        "slo": Slo(time_to_first_token="60s"),
        "speed": 1e6,
    }
    gate = doubles.Gate(doubles.config(blocks=10 * inside, **{**defaults, **settings}))
    held = [gate.seat(100, 60, tenant="held", priority=9) for _ in range(inside)]
    for seat in held:
        gate.core.first_token(seat, gate.now)
    return gate, held


def release(gate, held, seconds=0.1):
    """End one of those that run."""
    gate.now += seconds
    gate.end(held.pop(0), Outcome.FINISHED, Usage(100, 60))


def is_seated(answers):
    return bool(answers) and isinstance(answers[0], Seat)


def test_a_request_waits_for_room_and_is_seated_by_the_release():
    gate, held = full_gate()
    waiting = gate.ask(100, 60)
    assert waiting == []
    release(gate, held)
    assert is_seated(waiting)


@pytest.mark.parametrize("wakes", ["a new pod", "a larger plan", "a tick after a full pod"])
def test_a_waiting_request_is_seated_when_there_is_room(wakes):
    gate, held = full_gate()
    waiting = gate.ask(100, 60)
    if wakes == "a new pod":
        pods = [doubles.pod("u0"), doubles.pod("u1")]
        gate.core.endpoints("unified", pods, gate.now)
    elif wakes == "a larger plan":
        gate.core.configure(doubles.config(blocks=200, speed=1e6), gate.now)
    else:
        gate.end(held[0], Outcome.ENGINE_FULL)
        assert waiting == []
        gate.wait(1.0)
    assert is_seated(waiting)


def test_a_higher_class_is_served_first():
    gate, held = full_gate()
    low, high = gate.ask(100, 60, priority=2), gate.ask(100, 60, priority=8)
    release(gate, held)
    assert (is_seated(low), is_seated(high)) == (False, True)
    release(gate, held)
    assert is_seated(low)


def test_when_the_queue_is_full_the_newest_of_the_lowest_class_makes_place():
    gate, _ = full_gate(limits=Limits(max_queue=3))
    oldest, middle, newest = (gate.ask(100, 60, priority=p) for p in (1, 4, 1))
    (refused,) = gate.ask(100, 60, priority=1)
    assert (refused.status, refused.why) == (429, Why.QUEUE_FULL)
    assert newest == []
    assert gate.ask(100, 60, priority=5) == []
    assert (newest[0].status, newest[0].why) == (429, Why.QUEUE_FULL)
    assert (oldest, middle) == ([], [])


def test_nobody_waits_longer_than_the_queue_timeout():
    gate, _ = full_gate(limits=Limits(queue_timeout="2s"))
    waiting = gate.ask(100, 60)
    gate.wait(1.9)
    assert waiting == []
    gate.wait(0.2)
    assert (waiting[0].status, waiting[0].why) == (429, Why.QUEUE_TIMEOUT)
    assert gate.view().queued == 0


def test_nobody_waits_longer_than_the_slo_leaves():
    slo = Slo(time_to_first_token="1s")
    gate = doubles.Gate(doubles.config(blocks=10, speed=200.0, slo=slo))
    inside = gate.seat(100, 60)
    gate.now += 0.5
    gate.core.first_token(inside, gate.now)
    waiting = gate.ask(100, 60)  # half a second of prefill
    gate.wait(0.45)
    assert waiting == []
    gate.wait(0.15)
    assert waiting[0].why is Why.QUEUE_TIMEOUT


def test_who_would_be_late_is_told_at_once():
    gate, held = full_gate(slo=Slo(time_to_first_token="1s"))
    for _ in range(3):
        release(gate, held, seconds=5.0)  # a stay of ten seconds: one release in a second
        held.append(gate.seat(100, 60, priority=9))
        gate.core.first_token(held[-1], gate.now)
    answers = [gate.ask(100, 60) for _ in range(4)]
    refused = [a[0] for a in answers if a]
    assert refused
    assert all(isinstance(r, Refusal) and r.why is Why.KV_BUDGET for r in refused)


def test_a_client_that_leaves_the_queue_hears_nothing_and_holds_nothing():
    gate, held = full_gate()
    decided, ticket = gate.ask_for(doubles.ask(100, 60))
    ticket.leave(gate.now)
    ticket.leave(gate.now)
    release(gate, held)
    assert decided == []
    assert gate.book().seated == 9


def test_leaving_after_the_decision_changes_nothing():
    gate = doubles.Gate()
    (seat,), ticket = gate.ask_for(doubles.ask(100, 60))
    ticket.leave(gate.now)
    assert gate.book().seated == 1
    gate.end(seat, Outcome.FINISHED)


def test_a_flood_of_one_tenant_leaves_the_other_its_share():
    gate, held = full_gate()
    flood = [gate.ask(100, 60, tenant="flood") for _ in range(40)]
    rare = [gate.ask(100, 60, tenant="rare") for _ in range(5)]
    for _ in range(10):
        release(gate, held)
    assert sum(map(is_seated, rare)) == 5
    assert sum(map(is_seated, flood)) == 5


def test_shares_are_of_tokens_and_not_of_requests():
    gate, held = full_gate(inside=20)
    long = [gate.ask(420, 60, tenant="long") for _ in range(20)]
    short = [gate.ask(100, 60, tenant="short") for _ in range(20)]
    for _ in range(18):
        release(gate, held)
    tokens = {"long": 480 * sum(map(is_seated, long)), "short": 160 * sum(map(is_seated, short))}
    assert tokens["long"] == pytest.approx(tokens["short"], abs=480)


def test_a_tenant_that_was_away_has_saved_up_nothing():
    gate, held = full_gate(inside=4)
    for _ in range(20):  # one works alone for a while
        release(gate, held)
        held.append(gate.seat(100, 60, tenant="busy"))
        gate.core.first_token(held[-1], gate.now)
    busy = [gate.ask(100, 60, tenant="busy") for _ in range(6)]
    fresh = [gate.ask(100, 60, tenant="fresh") for _ in range(6)]
    for _ in range(4):
        release(gate, held)
    assert sum(map(is_seated, busy)) == 2
    assert sum(map(is_seated, fresh)) == 2


def test_a_long_prompt_is_served_under_a_flood_of_short_ones():
    gate, held = full_gate(limits=Limits(max_queue=1000, queue_timeout="60s"))
    long = gate.ask(900, 60)
    passed, short = 0, []
    while not is_seated(long):
        short += [gate.ask(30, 30) for _ in range(5)]
        release(gate, held)
        for answers in filter(is_seated, short):
            passed += 60
            gate.core.first_token(answers[0], gate.now)
            held.append(answers[0])
        short = [answers for answers in short if not answers]
        assert gate.now < 10, "it starves"
    assert is_seated(long)
    # It is overtaken by as many tokens as it asks for itself, and by the last that did so.
    assert 0 < passed <= 960 + 60


def behind_large_ones(heads, pods=2):
    """A gate full of small requests, 9 blocks on each pod apart; so many large ones wait."""
    limits = Limits(max_queue=100, queue_timeout="5s")
    gate = doubles.Gate(doubles.config(blocks=649, limits=limits, seqs=100), pods=pods)
    held = [gate.seat(*SMALL) for _ in range(4 * pods)]
    while len(held) < 64 * pods:
        for seat in held[-4 * pods :]:
            gate.core.first_token(seat, gate.now)
        held += [gate.seat(*SMALL) for _ in range(4 * pods)]
    for seat in held:
        gate.core.first_token(seat, gate.now)
    for _ in range(heads):
        assert gate.ask(9000, 200) == []
    return gate, held


SMALL = (150, 10)
"""Prompt and answer of a request of ten blocks."""


@pytest.mark.parametrize("pods", [1, 2, 4])
@pytest.mark.parametrize("heads", [1, 3, 4, 8, 30])
def test_nobody_is_passed_by_his_like_however_many_wait_before_him(heads, pods):
    gate, held = behind_large_ones(heads, pods)
    early, late = [gate.ask(*SMALL) for _ in range(2)], []
    while held and gate.now < 4.9 and not all(map(is_seated, early)):
        gate.wait(0.05)
        late.append(gate.ask(*SMALL))
        gate.end(held.pop(0), Outcome.FINISHED, Usage(*SMALL))
        assert all(map(is_seated, early)) or not any(map(is_seated, late))
    if pods > 1:  # on one pod they soon have to leave room for a large one
        assert all(map(is_seated, early))


@pytest.mark.parametrize(
    ("asked", "goes_at_once"),
    [
        pytest.param({"prompt": 120}, False, id="one like those that wait"),
        pytest.param({"prompt": 120, "priority": 9}, True, id="one of a higher class"),
        pytest.param({"prompt": 40}, True, id="one much smaller than they are"),
    ],
)
def test_only_who_is_like_those_that_wait_has_to_wait_behind_them(asked, goes_at_once):
    gate, _ = behind_large_ones(8)
    for _ in range(6):
        assert gate.ask(*SMALL) == []
    assert is_seated(gate.ask(limit=10, **asked)) is goes_at_once


def test_who_would_wait_too_long_behind_his_like_is_told_what_they_wait_for():
    slo = Slo(time_to_first_token="4s")
    gate = doubles.Gate(doubles.config(blocks=1000, seqs=10, speed=1e6, slo=slo))
    held = [gate.seat(100, 60) for _ in range(10)]
    for seat in held:
        gate.core.first_token(seat, gate.now)
    release(gate, held, seconds=4.0)
    held.append(gate.seat(100, 60))  # 2.5 are let go in a second
    answers = [gate.ask(100, 60) for _ in range(20)]
    assert answers[4] == []
    assert [one.why for one in answers[-1]] == [Why.MAX_SEQS]


def test_one_who_is_told_may_come_back_at_once():
    """A decision's receiver may ask, end or leave within the call."""
    gate, held = full_gate()
    seen, more = [], []

    def decided(answer):
        seen.append(answer)
        if isinstance(answer, Seat):
            gate.core.ended(answer, Outcome.CLIENT_GONE, None, gate.now)
            more.append(gate.ask(100, 60))

    gate.core.ask(doubles.ask(100, 60), gate.now, gate.now, decided)
    behind, ticket = gate.ask_for(doubles.ask(100, 60))
    del ticket
    release(gate, held)
    assert isinstance(seen[0], Seat)
    assert is_seated(behind)
    assert gate.view().queued == 1


@pytest.mark.parametrize("pool", ["unified", "prefill"])
def test_prompt_tokens_that_wait_are_told_of_the_pool_that_is_to_prefill_them(pool):
    gate = doubles.Gate(doubles.config(blocks=10, pair=pool == "prefill", speed=1e6), pods=1)
    inside = gate.seat(100, 60)
    assert gate.view().queued_prompt_tokens == {pool: 0}

    waiting = gate.ask(100, 60)
    assert waiting == []
    assert gate.view().queued_prompt_tokens == {pool: 100}

    gate.end(inside, Outcome.FINISHED, Usage(100, 60))
    assert is_seated(waiting)
    assert gate.view().queued_prompt_tokens == {pool: 0}


def test_without_a_configuration_no_queue_is_told_of():
    core = Admissions(jitter=lambda: 0.5, choice=doubles.PlainChoice())

    assert core.view(0.0, 0.0).queued_prompt_tokens == {}


def test_the_engine_is_not_fed_so_far_ahead_that_an_urgent_request_cannot_pass():
    slo = Slo(time_to_first_token="1s")
    gate = doubles.Gate(doubles.config(blocks=1000, speed=1000.0, slo=slo))
    low = [gate.ask(100, 16, priority=1) for _ in range(9)]
    urgent = gate.ask(100, 16, priority=9)
    inside = [answers[0] for answers in low if is_seated(answers)]
    assert 0 < len(inside) < 9
    gate.now += 0.1
    gate.core.first_token(inside[0], gate.now)
    assert is_seated(urgent)


def test_when_all_pods_go_those_who_waited_learn_that():
    gate, _ = full_gate(limits=Limits(queue_timeout="2s"))
    waiting = gate.ask(100, 60)
    gate.core.endpoints("unified", [], gate.now)
    gate.wait(2.1)
    assert (waiting[0].status, waiting[0].why) == (503, Why.NO_ENDPOINTS)
