"""What one tenant may have in flight."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gate.core import doubles

from tidegate.api.gate_config import Limits, Slo
from tidegate.gate.exchange import Outcome, Seat, Usage, Why

LIMIT = 1300


def full_gate(limit=LIMIT, **limits):
    """A gate in front of a pod that one request fills, of a tenant with no other."""
    gate = doubles.Gate(
        doubles.config(
            blocks=100,
            speed=1e6,
            slo=Slo(time_to_first_token="60s"),
            limits=Limits(queue_timeout="5s", tenant_tokens_in_flight=limit, **limits),
        )
    )
    return gate, gate.seat(1500, 100, tenant="other")


def reasons(answers):
    return [one[0].why for one in answers if one and not isinstance(one[0], Seat)]


@pytest.mark.parametrize("own_limit", [None, 1300])
def test_requests_that_wait_count_towards_the_tenants_limit(own_limit):
    gate, inside = full_gate(LIMIT if own_limit is None else 10**6)
    answers = [gate.ask(500, 100, tenant="a", own_limit=own_limit) for _ in range(8)]
    assert reasons(answers) == [Why.TENANT_SHARE] * 6

    gate.end(inside, Outcome.CLIENT_GONE)

    assert gate.book().reserved_tokens == 1200
    assert gate.view().queued == 0


def test_a_tenant_at_its_limit_does_not_keep_the_queue_from_others():
    gate, inside = full_gate(max_queue=3)
    for _ in range(8):
        gate.ask(500, 100, tenant="a")
    other = gate.ask(100, 100, tenant="b")

    gate.end(inside, Outcome.CLIENT_GONE)

    assert isinstance(other[0], Seat)


@pytest.mark.parametrize("gone", ["its client left", "it waited too long", "a higher class came"])
def test_a_request_that_waits_no_more_counts_no_more(gone):
    gate, _ = full_gate(max_queue=2)
    _, ticket = gate.ask_for(doubles.ask(500, 100, tenant="a", priority=1))
    gate.ask(500, 100, tenant="a", priority=2)
    assert reasons([gate.ask(500, 100, tenant="a")]) == [Why.TENANT_SHARE]

    if gone == "its client left":
        ticket.leave(gate.now)
    elif gone == "it waited too long":
        gate.wait(5.1)
    else:
        gate.ask(100, 100, tenant="b", priority=9)

    assert reasons([gate.ask(500, 100, tenant="a", priority=5)]) == []


def test_one_request_beyond_the_limit_may_wait_and_nothing_beside_it():
    gate, inside = full_gate(limit=300)
    first = gate.ask(500, 100, tenant="a")
    (refusal,) = gate.ask(10, 10, tenant="a")
    assert (refusal.status, refusal.why) == (429, Why.TENANT_SHARE)
    assert "They hold, or wait for, 600 of 300 tokens" in refusal.message

    gate.end(inside, Outcome.CLIENT_GONE)

    assert isinstance(first[0], Seat)


def gate_of_two_tenants(stays):
    """A gate whose tenants' requests of 600 tokens stayed so long before; a's limit holds one."""
    gate = doubles.Gate(doubles.config(blocks=1000, seqs=4, limits=Limits(max_queue=0)))
    for tenant, seconds in stays.items():
        for _ in range(20):
            seats = [gate.seat(500, 100, tenant=tenant) for _ in range(2)]
            gate.now += seconds
            for seat in seats:
                gate.core.first_token(seat, gate.now)
                gate.end(seat, Outcome.FINISHED, Usage(500, 100))
    return gate


def hammer(gate, times):
    """Ask for a again and again, heeding nothing; return what it is told at last."""
    for _ in range(times):
        gate.now += 0.01
        (refusal,) = gate.ask(500, 100, tenant="a", own_limit=700)
        assert refusal.why is Why.TENANT_SHARE
    return refusal.retry_after_seconds


@pytest.mark.parametrize(
    ("stays", "seconds"),
    [
        pytest.param({"b": 1.0}, 1, id="as long as all requests stay, while none of its has ended"),
        pytest.param({"a": 12.0, "b": 1.0}, 10, id="as long as its own stay"),
        pytest.param({"a": 1.0, "b": 12.0}, 1, id="however long others stay"),
        pytest.param({"a": 90.0}, 30, id="half a minute at most"),
        pytest.param({}, 5, id="a guess while nothing has ended"),
    ],
)
def test_a_tenant_at_its_limit_is_told_when_its_own_tokens_come_free(stays, seconds):
    gate = gate_of_two_tenants(stays)
    gate.seat(500, 100, tenant="a", own_limit=700)
    # 500 of its 600 tokens have to go before the next 600 may come
    assert hammer(gate, 300) == seconds


def test_a_tenant_whose_requests_all_wait_is_told_a_guess():
    gate, _ = full_gate()
    for _ in range(2):
        gate.ask(500, 100, tenant="a")
    (refusal,) = gate.ask(500, 100, tenant="a")
    assert refusal.retry_after_seconds == 5


@pytest.mark.parametrize("times", [0, 300])
def test_one_that_hammers_at_its_limit_makes_no_others_wait(times):
    gate = gate_of_two_tenants({"b": 1.0})
    gate.seat(500, 100, tenant="a", own_limit=700)
    if times:
        hammer(gate, times)
    *_, (refusal,) = [gate.ask(500, 100, tenant="b") for _ in range(4)]
    assert (refusal.why, refusal.retry_after_seconds) == (Why.MAX_SEQS, 1)


CAME = st.tuples(
    st.sampled_from("ab"), st.integers(50, 400), st.integers(1, 200), st.integers(0, 9)
)


@settings(deadline=None)
@given(
    came=st.lists(
        st.one_of(CAME, st.just("one ends"), st.just("one leaves"), st.just("time passes")),
        min_size=1,
        max_size=60,
    ),
    limit=st.integers(300, 1500),
    gates=st.integers(1, 2),
)
def test_a_tenant_never_holds_more_than_its_limit_its_first_request_excepted(came, limit, gates):
    gate, inside = full_gate(limit, max_queue=10)
    gate.core.gates(gates)
    seats, waiting = [inside], []

    def collect():
        for decided, ticket in list(waiting):
            if decided:
                waiting.remove((decided, ticket))
                seats.extend(one for one in decided if isinstance(one, Seat))

    for event in came:
        if event == "one ends" and seats:
            seat = seats.pop(0)
            gate.end(seat, Outcome.FINISHED, Usage(seat.ask.prompt_tokens, 50))
        elif event == "one leaves" and waiting:
            waiting.pop(0)[1].leave(gate.now)
        elif event == "time passes":
            gate.wait(1.0, step=0.5)
        elif not isinstance(event, str):
            tenant, prompt, output, priority = event
            asked = doubles.ask(prompt, output, tenant=tenant, priority=priority)
            waiting.append(gate.ask_for(asked))
        collect()
        for tenant in "ab":
            held = [seat.book.tokens for seat in seats if seat.ask.caller.tenant == tenant]
            assert sum(held) <= limit / gates or len(held) == 1
