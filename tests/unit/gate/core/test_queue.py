"""The order of those who wait."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gate.core import doubles

from tidegate.gate.core.demand import Demand
from tidegate.gate.core.queue import Queue


def demand(priority=5, tag=0.0, deadline=10.0, size=7, *, tenant="t", prompt=100):
    made = Demand(doubles.ask(prompt, priority=priority, tenant=tenant), 50, 0.0, lambda _: None)
    made.start_tag = tag
    made.deadline = deadline
    made.kind = (size, False, ())
    made.waits(lambda *_: None)
    return made


WAITING = st.builds(
    demand,
    st.integers(0, 9),
    st.integers(0, 20).map(float),
    st.integers(1, 20).map(float),
    st.integers(1, 4),
)


@settings(deadline=None)
@given(st.lists(WAITING, max_size=30), st.sets(st.integers(0, 29)))
def test_those_who_stay_come_by_class_then_share_then_age(waiting, leave):
    queue = Queue()
    for one in waiting:
        queue.push(one)
    for index in leave & set(range(len(waiting))):
        queue.remove(waiting[index])
    stay = [one for index, one in enumerate(waiting) if index not in leave]
    expected = sorted(stay, key=lambda d: (-d.ask.caller.priority, d.start_tag, d.number))
    assert queue.first(100) == expected
    assert queue.first(2) == expected[:2]
    assert len(queue) == len(stay)
    assert set(queue.expired(12.0)) == {one for one in stay if one.deadline <= 12.0}


@settings(deadline=None)
@given(
    st.lists(WAITING, max_size=30),
    st.sets(st.integers(0, 29)),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_beside_the_first_few_are_the_first_of_other_kinds(waiting, leave, number, kinds):
    queue = Queue()
    for one in waiting:
        queue.push(one)
    for index in leave & set(range(len(waiting))):
        queue.remove(waiting[index])
    order = queue.first(100)
    few, rest = order[:number], order[number:]
    seen, others = {one.kind for one in few}, []
    for one in rest:
        if one.kind not in seen:
            seen.add(one.kind)
            others.append(one)

    assert queue.first(number, kinds) == few + others[:kinds]
    for one in order:
        same = [other for other in order if other.kind == one.kind]
        assert queue.alike(one.kind, 0) == len(same)
        above = [other for other in same if other.ask.caller.priority >= one.ask.caller.priority]
        assert queue.alike(one.kind, one.ask.caller.priority) == len(above)


@settings(deadline=None)
@given(st.lists(WAITING, min_size=1, max_size=20), st.integers(0, 9))
def test_the_newest_of_the_lowest_class_gives_way(waiting, priority):
    queue = Queue()
    for one in waiting:
        queue.push(one)
    lowest = min(one.ask.caller.priority for one in waiting)
    newest = [one for one in waiting if one.ask.caller.priority == lowest][-1]
    assert queue.newest_below(priority) is (newest if lowest < priority else None)


def test_ahead_are_higher_classes_and_a_fair_part_of_ones_own():
    queue = Queue()
    for priority, tenant, count in ((7, "a", 3), (5, "a", 10), (5, "b", 1), (2, "a", 50)):
        for _ in range(count):
            queue.push(demand(priority, tenant=tenant))
    assert queue.ahead(9, "new").requests == 0
    assert queue.ahead(5, "new").requests == 3 + 2  # one of each tenant
    assert queue.ahead(5, "a").requests == 3 + 11  # all of its own
    assert queue.ahead(5, "b").tokens == 150 * (3 + 1 + 2)
    assert queue.by_priority() == {7: 3, 5: 11, 2: 50}


def test_ten_thousand_that_come_and_leave_keep_the_queue_small_and_quick():
    queue = Queue()
    stays = demand()
    queue.push(stays)
    for length in (100, 10_000):
        crowd = [demand(tag=float(n % 7), size=n % 5) for n in range(length)]
        begun = time.process_time()
        for one in crowd:
            queue.push(one)
            queue.first(4, 8)
        for one in crowd:
            queue.remove(one)
        each = (time.process_time() - begun) / length
        assert each < 1e-3
    assert queue.first(1) == [stays]
    assert sum(map(len, queue._order.values())) < 200
    assert queue.alike(stays.kind, 0) == 1
