"""A pair whose KV cache does not come over: served by decode alone, and tried again in a while."""

from itertools import pairwise

import pytest
from tests.unit.gate.core import doubles

from tidegate.gate.core import transfers
from tidegate.gate.exchange import Outcome, Refusal, Usage, Why

FIRST_SKIP = transfers.SKIPPED_SECONDS


def pair_gate(pods=1, **settings):
    settings = {"speed": 1e6, "blocks": 10_000, "seqs": 1000, **settings}
    return doubles.Gate(doubles.config(pair=True, **settings), pods=pods)


def lose(gate, seat, outcome=Outcome.ENGINE_FAILED):
    """Prefill a request, lose its transfer, and return what follows."""
    gate.core.prefilled(seat, gate.now)
    return gate.core.again(seat, seat.pod, outcome, gate.now)


def serve(gate, seat):
    if seat.prefill is not None:
        gate.core.prefilled(seat, gate.now)
    gate.core.first_token(seat, gate.now)
    gate.end(seat, Outcome.FINISHED, Usage(100, 16))


def break_all(gate):
    """Lose transfers until pairs are skipped; returns how many were lost."""
    for lost in range(20):
        seat = gate.seat()
        if seat.prefill is None:
            serve(gate, seat)
            return lost
        again = lose(gate, seat)
        if not isinstance(again, Refusal):
            serve(gate, again)
    raise AssertionError("never skipped")


def seats_of_pairs(gate, count):
    """Which of the next requests go to a pair."""
    seats = [gate.seat() for _ in range(count)]
    for seat in seats:
        gate.end(seat, Outcome.CLIENT_GONE)
    return [seat.prefill is not None for seat in seats]


def test_its_decode_pod_prefills_and_has_that_prompt_to_do():
    gate = pair_gate(pods=2)
    seat = gate.seat(800, 16)
    gate.choice.told.clear()

    again = lose(gate, seat)

    assert (again.pod, again.prefill) == (seat.pod, None)
    page = gate.book(seat.pod.name)
    assert (page.seated, page.prefill_backlog_tokens) == (1, 800)
    assert gate.book(seat.prefill.name).seated == 0
    assert gate.choice.told == [("succeeded", seat.prefill.name)]  # nobody failed


@pytest.mark.parametrize("leaves", ["terminating", "ejected"])
def test_a_decode_pod_that_gets_nothing_more_is_left(leaves):
    gate = pair_gate(pods=2)
    seat = gate.seat(100)
    gate.core.prefilled(seat, gate.now)
    if leaves == "ejected":
        gate.choice.ejected.add(seat.pod.name)
    else:
        gone = seat.pod.name
        pods = [doubles.pod(d, "decode", terminating=d == gone) for d in ("d0", "d1")]
        gate.core.endpoints("decode", pods, gate.now)

    again = gate.core.again(seat, seat.pod, Outcome.ENGINE_FAILED, gate.now)

    assert again.pod != seat.pod


def test_it_is_a_second_try_within_the_budget_of_those():
    gate = pair_gate()
    seats = [gate.seat(100) for _ in range(50)]  # before any failed

    told = [lose(gate, seat) for seat in seats]

    refused = [one for one in told if isinstance(one, Refusal)]
    assert len(told) - len(refused) == 10  # 20 %
    assert {(one.status, one.why) for one in refused} == {(502, Why.ENGINE_ERROR)}
    assert ("failed", "d0") not in gate.choice.told


@pytest.mark.parametrize("outcome", [Outcome.ENGINE_FAILED, Outcome.UNREACHABLE])
def test_an_engine_that_fails_without_a_transfer_too_has_failed(outcome):
    gate = pair_gate(pods=2)
    alone = lose(gate, gate.seat(100))
    gate.choice.told.clear()

    elsewhere = gate.core.again(alone, alone.pod, outcome, gate.now)

    assert gate.choice.told == [("failed", alone.pod.name)]
    assert elsewhere.pod != alone.pod


@pytest.mark.parametrize("outcome", [Outcome.ENGINE_FULL, Outcome.UNREACHABLE])
def test_what_is_no_loss_of_a_transfer_is_tried_elsewhere(outcome):
    gate = pair_gate(pods=2)
    seat = gate.seat(100)

    again = lose(gate, seat, outcome)

    assert again.pod != seat.pod
    assert again.prefill is not None


@pytest.mark.parametrize(("pods", "most"), [(1, 2), (2, 4), (4, 8)])
def test_a_few_losses_show_that_no_pair_works(pods, most):
    gate = pair_gate(pods=pods)

    assert 2 <= break_all(gate) <= most
    assert not any(seats_of_pairs(gate, 20))


def test_a_transfer_that_is_waited_for_in_vain_counts():
    gate = pair_gate()
    for _ in range(2):
        seat = gate.seat()
        gate.core.prefilled(seat, gate.now)
        gate.end(seat, Outcome.DEADLINE)

    assert seats_of_pairs(gate, 1) == [False]


def test_one_request_tries_again_while_the_others_go_on_without():
    gate = pair_gate()
    break_all(gate)
    gate.now += FIRST_SKIP - 0.1
    assert seats_of_pairs(gate, 2) == [False, False]

    gate.now += 0.2
    trial, others = gate.seat(), seats_of_pairs(gate, 3)

    assert trial.prefill is not None
    assert others == [False] * 3
    serve(gate, trial)
    assert seats_of_pairs(gate, 3) == [True] * 3


def test_a_pair_that_stays_broken_is_tried_ever_less():
    gate = pair_gate()
    break_all(gate)
    tried, until = [], gate.now + 600
    while gate.now < until:
        gate.now += 1
        seat = gate.seat()
        if seat.prefill is not None:
            tried.append(gate.now)
            seat = lose(gate, seat)
        serve(gate, seat)

    waits = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert waits == sorted(waits)
    assert waits[0] < 15
    assert set(waits[4:]) == {60}


def test_a_stream_shows_before_its_end_that_the_transfer_came():
    gate = pair_gate()
    break_all(gate)
    gate.now += FIRST_SKIP
    trial = gate.seat(limit=500)
    gate.core.prefilled(trial, gate.now)
    gate.core.first_token(trial, gate.now)
    gate.core.produced(trial, 16, gate.now)

    assert seats_of_pairs(gate, 1) == [True]


def test_losses_with_answers_between_them_are_no_reason_to_skip():
    gate = pair_gate()
    for _ in range(5):
        serve(gate, lose(gate, gate.seat()))
        serve(gate, gate.seat())
        gate.now += 10  # of retries it may have three

    assert seats_of_pairs(gate, 1) == [True]


def test_of_several_prefill_pods_only_the_one_that_gives_nothing_is_skipped():
    gate = pair_gate(pods=3)
    prefilled_by = []
    for _ in range(30):
        first, *others = gate.choice.pods["prefill"]
        gate.choice.pods["prefill"] = [*others, first]
        seat = gate.seat()
        prefilled_by.append(seat.prefill and seat.prefill.name)
        if prefilled_by[-1] == "p0":
            seat = lose(gate, seat)
        serve(gate, seat)

    assert prefilled_by.count("p0") == transfers.LOST_IN_A_ROW
    assert prefilled_by.count("p1") == prefilled_by.count("p2") == 10


def test_where_decode_may_not_prefill_pairs_are_used_whatever_they_lose():
    gate = pair_gate(pods=2, decode_may_prefill=False)
    for _ in range(6):
        lose(gate, gate.seat())
        gate.now += 10

    assert seats_of_pairs(gate, 2) == [True, True]
    assert ("failed", "d0") in gate.choice.told


def test_what_is_known_of_pods_that_are_gone_is_forgotten():
    gate = pair_gate()
    break_all(gate)

    gate.core.endpoints("prefill", [doubles.pod("p9", "prefill")], gate.now)
    gate.core.endpoints("decode", [doubles.pod("d9", "decode")], gate.now)

    assert seats_of_pairs(gate, 1) == [True]
    assert not gate.core._transfers._streaks
