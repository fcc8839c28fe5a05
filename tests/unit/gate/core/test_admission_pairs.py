"""Prefill and decode in two pools, and second tries."""

import pytest
from tests.unit.gate.core import doubles

from tidegate.api.gate_config import Limits, RevisionConfig, SliceConfig, Slo
from tidegate.gate.core.choice import Choice
from tidegate.gate.exchange import Outcome, Refusal, Seat, Surface, Usage, Why


def pair_gate(pods=2, **settings):
    return doubles.Gate(doubles.config(pair=True, **{"speed": 1e6, **settings}), pods=pods)


def test_both_pods_are_reserved_for_their_time():
    gate = pair_gate(pods=1)
    seat = gate.seat(160, 64)
    assert (seat.pod.name, seat.prefill.name) == ("d0", "p0")
    assert (gate.book("p0").reserved_tokens, gate.book("d0").reserved_tokens) == (160, 224)
    gate.core.prefilled(seat, gate.now)
    assert (gate.book("p0").reserved_tokens, gate.book("d0").reserved_tokens) == (0, 224)
    gate.core.first_token(seat, gate.now)
    gate.end(seat, Outcome.FINISHED, Usage(160, 64))
    assert gate.book("d0").reserved_tokens == 0


def test_time_is_the_prefill_pools_and_room_the_decode_pools():
    slo = Slo(time_to_first_token="1s")
    gate = pair_gate(pods=1, speed=1000.0, slo=slo, limits=Limits(max_queue=0))
    seats = [gate.seat(400, 16)]
    assert gate.ask(700, 16)[0].why is Why.TTFT_SLO
    gate.core.prefilled(seats[0], gate.now)
    seats.append(gate.seat(700, 16))
    gate.core.prefilled(seats[1], gate.now)
    assert gate.ask(700, 16)[0].why is Why.KV_BUDGET  # decode holds 1,132 tokens of 1,600


@pytest.mark.parametrize(
    ("surface", "is_told_at_once"), [(Surface.RESPONSES, True), (Surface.CHAT, False)]
)
def test_who_waits_for_decode_to_prefill_is_told_at_once_that_it_would_be_late(
    surface, is_told_at_once
):
    slo = Slo(time_to_first_token="1s")
    gate = pair_gate(pods=1, speed=1000.0, slo=slo)
    gate.seat(800, 16, surface=Surface.RESPONSES)
    gate.seat(550, 16)

    assert bool(gate.ask(300, 16, surface=surface)) is is_told_at_once


def test_a_pair_is_of_one_revision():
    first = doubles.config(pair=True).slices
    second = [
        SliceConfig(**{**part.model_dump(), "name": f"{part.name}-r2", "revision": "r2"})
        for part in first
    ]
    revisions = [RevisionConfig(name="r1", weight=50), RevisionConfig(name="r2", weight=50)]
    gate = pair_gate(slices=[*first, *second], revisions=revisions)
    for pool in ("prefill", "decode"):
        names = {"r1": f"{pool}-1", "r2": f"{pool}-2"}
        pods = [doubles.pod(name, pool, revision=r) for r, name in names.items()]
        gate.core.endpoints(pool, pods, gate.now)
    for _ in range(6):
        seat = gate.seat(400, 16)
        assert seat.pod.revision == seat.prefill.revision


IN_ONE_STEP = {
    "tokenize": {"surface": Surface.TOKENIZE, "limit": 0},
    "embeddings": {"surface": Surface.EMBEDDINGS, "limit": 0},
    "responses": {"surface": Surface.RESPONSES},
    "several answers": {"samples": 2},
    "several prompts": {"surface": Surface.COMPLETIONS, "samples": 3},
    "log probabilities of the prompt": {"scores_prompt": True},
}


@pytest.mark.parametrize("asked", IN_ONE_STEP.values(), ids=IN_ONE_STEP)
def test_what_cannot_be_split_is_the_decode_pods_alone(asked):
    seat = pair_gate().seat(100, **asked)
    assert seat.prefill is None
    assert seat.pod.pool == "decode"


def test_what_cannot_be_split_tells_nothing_of_the_prefill_pods():
    gate = pair_gate(pods=1, speed=5000.0)
    for _ in range(10):
        seat = gate.seat(1000, 16, surface=Surface.RESPONSES)
        gate.now += 0.2
        gate.core.first_token(seat, gate.now)
        gate.end(seat, Outcome.FINISHED, Usage(1000, 16))

    assert gate.book("p0").prefill_tokens_per_second == 5000.0
    assert ("succeeded", "p0") not in gate.choice.told
    assert gate.book("d0").prefill_tokens_per_second == pytest.approx(5000.0)


def test_what_cannot_be_split_is_seated_only_where_decode_prefills_it_in_time():
    slo = Slo(time_to_first_token="1s")
    gate = pair_gate(pods=1, speed=1000.0, slo=slo, limits=Limits(max_queue=0))
    alone = gate.seat(400, 16, surface=Surface.RESPONSES)

    assert gate.ask(700, 16, surface=Surface.RESPONSES)[0].why is Why.TTFT_SLO
    gate.core.first_token(alone, gate.now)
    gate.seat(700, 16, surface=Surface.RESPONSES)


@pytest.mark.parametrize(
    ("may_prefill", "missing", "expected"),
    [
        (False, "prefill", Why.NO_PREFILL),
        (False, "decode", Why.NO_DECODE),
        (True, "decode", Why.NO_DECODE),
    ],
)
def test_half_a_pair_serves_nobody(may_prefill, missing, expected):
    gate = pair_gate(decode_may_prefill=may_prefill)
    gate.core.endpoints(missing, [], gate.now)
    (refusal,) = gate.ask()
    assert (refusal.status, refusal.why) == (503, expected)
    assert 1 <= refusal.retry_after_seconds <= 60


def test_without_prefill_pods_decode_prefills_for_itself_if_it_may():
    gate = pair_gate()
    gate.core.endpoints("prefill", [], gate.now)
    seat = gate.seat(100)
    assert seat.prefill is None
    assert gate.book(seat.pod.name).prefill_backlog_tokens == 100


def gate_of(prefill, decode, **settings):
    """A gate whose pods are these, by their revisions: `{"d0": "r1"}`."""
    revisions = [RevisionConfig(name=name, weight=50) for name in ("r1", "r2")]
    settings = doubles.config(pair=True, speed=1e6, revisions=revisions, **settings)
    gate = doubles.Gate(settings, choice=Choice())
    pools = {"prefill": prefill, "decode": decode}
    for pool in ("prefill", "decode"):
        pods = [doubles.pod(name, pool, revision=r) for name, r in pools[pool].items()]
        gate.core.endpoints(pool, pods, gate.now)
    return gate


@pytest.mark.parametrize("prefill", [{}, {"p0": "r2"}], ids=["no prefill pod", "one of r2"])
def test_a_prefill_pod_of_another_revision_takes_nothing_from_the_decode_pod(prefill):
    seat = gate_of(prefill, {"d0": "r1"}).seat(100)

    assert (seat.pod.name, seat.prefill) == ("d0", None)


@pytest.mark.parametrize("decode", [{}, {"d0": "old"}], ids=["none", "one without traffic"])
def test_no_decode_pod_is_said_to_be_missing_only_where_none_serves(decode):
    gate = gate_of({"p0": "r2"}, decode)

    assert gate.ask(100)[0].why is Why.NO_DECODE


def test_decode_that_may_not_prefill_does_not_serve_beside_another_revisions_prefill():
    gate = gate_of({"p0": "r2"}, {"d0": "r1"}, decode_may_prefill=False)

    assert gate.ask(100)[0].why is Why.NO_DECODE


def test_after_a_failed_prefill_a_decode_pod_that_is_leaving_is_left():
    gate = pair_gate(pods=2)
    seat = gate.seat(100)
    pods = [doubles.pod(name, "decode", terminating=name == seat.pod.name) for name in ("d0", "d1")]
    gate.core.endpoints("decode", pods, gate.now)

    fresh = gate.core.again(seat, seat.prefill, Outcome.ENGINE_FAILED, gate.now)

    assert not {fresh.pod.name, fresh.prefill.name} & {seat.pod.name, seat.prefill.name}


@pytest.mark.parametrize("outcome", [Outcome.DEADLINE, Outcome.ENGINE_FAILED, Outcome.UNREACHABLE])
@pytest.mark.parametrize(("is_prefilled", "blamed"), [(False, "p0"), (True, "d0")])
def test_the_pod_that_has_the_request_is_blamed_for_its_end(outcome, is_prefilled, blamed):
    gate = pair_gate(pods=1)
    seat = gate.seat(100)
    if is_prefilled:
        gate.core.prefilled(seat, gate.now)
    gate.choice.told.clear()

    gate.end(seat, outcome)

    assert gate.choice.told == [("failed", blamed)]


def test_a_prefill_pod_that_is_full_is_the_one_that_is_left_alone():
    gate = pair_gate(pods=2, decode_may_prefill=False)
    full = gate.seat(100)
    gate.end(full, Outcome.ENGINE_FULL)

    seats = [gate.seat(100) for _ in range(4)]

    assert full.prefill not in [seat.prefill for seat in seats]
    assert full.pod in [seat.pod for seat in seats]


def test_a_failed_prefill_is_tried_on_one_other_pod_and_then_done_by_decode():
    gate = pair_gate(pods=3)
    seat = gate.seat(100)
    second = gate.core.again(seat, seat.prefill, Outcome.ENGINE_FAILED, gate.now)
    assert second.pod == seat.pod
    assert second.prefill not in (seat.prefill, None)
    third = gate.core.again(second, second.prefill, Outcome.ENGINE_FAILED, gate.now)
    assert (third.pod, third.prefill) == (seat.pod, None)


def test_or_it_is_not_served_where_decode_may_not_prefill():
    gate = pair_gate(decode_may_prefill=False)
    seat = gate.seat(100)
    second = gate.core.again(seat, seat.prefill, Outcome.ENGINE_FAILED, gate.now)
    refusal = gate.core.again(second, second.prefill, Outcome.ENGINE_FAILED, gate.now)
    assert (refusal.status, refusal.why) == (503, Why.NO_PREFILL)


class TestAgain:
    def test_never_on_a_pod_that_failed_the_request(self):
        gate = doubles.Gate(pods=3)
        seat, seen = gate.seat(100), []
        while isinstance(seat, Seat):
            assert seat.pod.name not in seen
            seen.append(seat.pod.name)
            seat = gate.core.again(seat, seat.pod, Outcome.UNREACHABLE, gate.now)
        assert len(seen) == 3
        assert (seat.status, seat.why) == (502, Why.ENGINE_ERROR)
        assert [told for told in gate.choice.told if told[0] == "failed"] == [
            ("failed", name) for name in seen
        ]

    def test_within_the_budget_of_retries(self):
        gate = doubles.Gate(doubles.config(blocks=10_000, speed=1e6, seqs=1000), pods=2)
        answers = []
        for _ in range(50):
            seat = gate.seat(16, 16)
            answers.append(gate.core.again(seat, seat.pod, Outcome.ENGINE_FAILED, gate.now))
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        assert len(answers) - len(refused) == 10  # 20 %
        assert {refusal.why for refusal in refused} == {Why.ENGINE_ERROR}

    def test_a_full_engine_is_no_failure_and_its_client_may_come_back(self):
        gate = doubles.Gate(pods=1)
        seat = gate.seat(100)
        refusal = gate.core.again(seat, seat.pod, Outcome.ENGINE_FULL, gate.now)
        assert (refusal.status, refusal.why) == (429, Why.KV_BUDGET)
        assert refusal.retry_after_seconds >= 1
        assert gate.choice.told == []

    def test_the_old_seat_is_given_back_and_the_wait_goes_on_counting(self):
        gate = doubles.Gate(pods=2)
        seat = gate.seat(100)
        gate.now += 1.0
        fresh = gate.core.again(seat, seat.pod, Outcome.ENGINE_FAILED, gate.now)
        assert gate.book(seat.pod.name).seated == 0
        assert (fresh.asked_at, fresh.admitted_at) == (0.0, 1.0)
        gate.end(seat, Outcome.FINISHED)
        assert gate.book(fresh.pod.name).seated == 1

    def test_a_seat_that_has_ended_is_not_had_again(self):
        gate = doubles.Gate(pods=2)
        seat = gate.seat(100)
        gate.end(seat, Outcome.CLIENT_GONE)
        assert gate.core.again(seat, seat.pod, Outcome.UNREACHABLE, gate.now).status == 502
        assert [page.seated for page in gate.view().pods] == [0, 0]
