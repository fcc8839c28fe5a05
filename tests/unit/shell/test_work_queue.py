"""The queue between events and passes."""

import asyncio
import contextlib
import logging

import pytest

from tidegate.shell.work_queue import WorkQueue


@contextlib.asynccontextmanager
async def running(queue):
    task = asyncio.create_task(queue.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


async def test_many_wishes_before_a_pass_lead_to_one_pass():
    passes = []

    async def work(item):
        passes.append(item)

    queue = WorkQueue(work)
    for _ in range(10):
        queue.wake("a")
    async with running(queue):
        await until(lambda: passes)
        await asyncio.sleep(0.02)

    assert passes == ["a"]


async def test_a_wish_during_a_pass_leads_to_another_and_never_to_two_at_once():
    begun, together, go_on = [], [], asyncio.Event()

    async def work(item):
        begun.append(item)
        together.append(len(begun) - len(done))
        await go_on.wait()
        done.append(item)

    done = []
    queue = WorkQueue(work, concurrency=4)
    async with running(queue):
        queue.wake("a")
        await until(lambda: begun)
        queue.wake("a")
        queue.wake("a")
        go_on.set()
        await until(lambda: len(done) == 2)
        await asyncio.sleep(0.02)

    assert begun == ["a", "a"]
    assert max(together) == 1


async def test_a_pass_that_fails_is_tried_again_and_stops_nobody_else(caplog):
    passes = []

    async def work(item):
        passes.append(item)
        if passes.count("bad") == 1 and item == "bad":
            raise RuntimeError("boom")

    queue = WorkQueue(work, concurrency=1)
    async with running(queue):
        queue.wake("bad")
        queue.wake("good")
        await until(lambda: "good" in passes)
        await until(lambda: passes.count("bad") == 2)

    assert caplog.records[0].levelno == logging.ERROR
    assert "boom" in caplog.text


async def test_an_answer_asks_for_the_next_pass():
    passes = []

    async def work(item):
        passes.append(item)
        return 0.01 if len(passes) < 3 else None

    queue = WorkQueue(work)
    async with running(queue):
        queue.wake("a")
        await until(lambda: len(passes) == 3)
        await asyncio.sleep(0.05)

    assert len(passes) == 3


@pytest.mark.parametrize(("first", "second"), [(0.01, 5), (5, 0.01)])
async def test_of_two_delays_the_shorter_one_counts(first, second):
    passes = []

    async def work(item):
        passes.append(item)

    queue = WorkQueue(work)
    async with running(queue):
        queue.wake_after("a", first)
        queue.wake_after("a", second)
        await until(lambda: passes)
        await asyncio.sleep(0.03)

    assert passes == ["a"]


async def test_a_forgotten_item_is_not_woken():
    passes = []

    async def work(item):
        passes.append(item)

    queue = WorkQueue(work)
    async with running(queue):
        queue.wake_after("a", 0.01)
        queue.forget("a")
        await asyncio.sleep(0.05)

    assert passes == []


async def test_a_full_queue_of_passes_that_await_nothing_lets_others_run():
    passes, turns = [], 0

    async def work(item):
        passes.append(item)

    queue = WorkQueue(work, concurrency=4)
    for number in range(100):
        queue.wake(number)
    async with running(queue):
        while len(passes) < 100:
            turns += 1
            await asyncio.sleep(0)

    assert turns > 10


async def test_a_pass_that_has_failed_for_a_week_is_still_tried_and_stops_nobody(monkeypatch):
    monkeypatch.setattr("tidegate.shell.work_queue._BACKOFF_SECONDS", (0.0, 0.0))
    monkeypatch.setattr("tidegate.shell.work_queue._LOG.disabled", True)
    passes = []

    async def work(item):
        passes.append(item)
        if item == "bad":
            raise RuntimeError("boom")

    queue = WorkQueue(work, concurrency=1)
    async with running(queue):
        queue.wake("bad")
        await until(lambda: passes.count("bad") > 5000)
        queue.wake("good")
        await until(lambda: "good" in passes)
