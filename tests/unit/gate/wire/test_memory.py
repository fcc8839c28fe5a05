"""What clients make a gate hold is bounded, whatever each of them does."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.gate.wire.memory import Memory

MOST_BUFFERED = 1_000
TOTAL = 8 * MOST_BUFFERED


class Client:
    def __init__(self) -> None:
        self.is_gone = False

    def abort(self) -> None:
        self.is_gone = True


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 600))))
def test_buffers_never_hold_more_than_their_share(steps):
    memory, clients = Memory(TOTAL), [Client() for _ in range(10)]
    held = dict.fromkeys(clients, 0)
    for number, held_bytes in steps:
        if clients[number].is_gone:
            continue
        held[clients[number]] = held_bytes
        memory.buffers(clients[number], held_bytes)

        alive = sum(told for client, told in held.items() if not client.is_gone)
        assert memory.buffered_bytes == alive <= MOST_BUFFERED


def test_who_has_been_behind_for_longest_goes_first():
    memory, early, late = Memory(TOTAL), Client(), Client()
    memory.buffers(early, 300)
    memory.buffers(late, 400)
    memory.buffers(early, 500)
    assert not early.is_gone

    memory.buffers(late, 600)

    assert (early.is_gone, late.is_gone) == (True, False)


def test_no_body_is_taken_while_buffers_are_nearly_full_or_bodies_have_their_share():
    memory = Memory(TOTAL)
    assert memory.may_hold(2_000)
    assert not memory.may_hold(1)
    memory.let_go(500)
    assert memory.may_hold(500)
    memory.let_go(2_000)

    memory.buffers(Client(), 800)

    assert not memory.has_room()
    assert not memory.may_hold(1)
