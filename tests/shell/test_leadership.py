"""One leader at a time, by a Lease on a real API server."""

import asyncio
import contextlib

from tidegate.shell.leadership import Leadership, LeaseTimes

TIMES = LeaseTimes(lease_seconds=3, renew_deadline_seconds=2, retry_seconds=0.3)


class Process:
    """A contender that notes when its work runs."""

    def __init__(self, api, namespace):
        self.leadership = Leadership(api, namespace, TIMES)
        self.works = False
        self.task = asyncio.create_task(self.leadership.lead(self._work))

    async def _work(self):
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    async def kill(self):
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


async def until(condition, seconds=10):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_only_one_leads_and_the_other_takes_over_when_the_lease_runs_out(api, namespace):
    first = Process(api, namespace)
    await until(lambda: first.works)
    second = Process(api, namespace)
    await asyncio.sleep(TIMES.lease_seconds + 1)
    assert first.leadership.holds()
    assert not second.works

    await first.kill()
    await until(lambda: second.works)
    assert second.leadership.holds()
    assert not first.leadership.holds()
    await second.kill()


async def test_a_leader_that_resigns_hands_over_at_once(api, namespace):
    first = Process(api, namespace)
    await until(lambda: first.works)
    second = Process(api, namespace)
    await first.kill()
    await first.leadership.resign()

    await until(lambda: second.works, TIMES.lease_seconds - 1)
    await second.kill()


class Unreachable:
    """An API server that a process has lost."""

    def __init__(self, api):
        self.api = api
        self.lost = False

    async def call(self, *arguments, **options):
        from tidegate.shell.api_server import NoAnswer

        if self.lost:
            raise NoAnswer("unreachable")
        return await self.api.call(*arguments, **options)


async def test_a_leader_that_loses_the_api_server_stops_before_its_lease_ends(api, namespace):
    server = Unreachable(api)
    process = Process(server, namespace)
    await until(lambda: process.works)
    server.lost = True

    await until(lambda: process.task.done(), TIMES.lease_seconds + 2)
    assert not process.works
