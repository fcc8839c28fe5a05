"""Who leads when the API server comes and goes: at most one at any moment, and soon one again."""

import asyncio
import contextlib
import random
from typing import Any

import pytest

from tidegate.flow.ports import Document, WriteFailed
from tidegate.shell.api_server import NoAnswer
from tidegate.shell.cluster import KubernetesCluster
from tidegate.shell.leadership import Leadership, LeaseTimes
from tidegate.shell.operate import Operator
from tidegate.shell.settings import OperatorSettings
from tidegate.shell.telemetry import Metrics

TIMES = LeaseTimes(lease_seconds=1.0, renew_deadline_seconds=0.5, retry_seconds=0.02)
OBJECT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "one", "namespace": "ns"},
}


class Server:
    """An API server with one Lease, which counts the writes of anything else by who did them."""

    def __init__(self) -> None:
        self.lease: Document | None = None
        self.version = 0

    async def call(self, method: str, body: Document | None) -> tuple[int, Any]:
        await asyncio.sleep(0)
        if method == "GET":
            return (404, {}) if self.lease is None else (200, self.lease)
        assert body is not None
        there = None if self.lease is None else self.lease["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion") != there:
            return 409, {"message": "it changed"}
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**body, "metadata": metadata}
        return 200, self.lease


class Replica:
    """A process that leads when it may, and writes all the time, whether it may or not."""

    def __init__(self, server: Server, everybody: list["Replica"]) -> None:
        self.server = server
        self.everybody = everybody
        self.is_cut_off = False
        self.led = 0
        self.refused = 0
        self.leadership = Leadership(self, "ns", TIMES)  # type: ignore[arg-type]  # its one method
        self.cluster = KubernetesCluster(
            self,  # type: ignore[arg-type]  # its one method
            lambda ref: None,
            self.leadership.holds,
        )

    async def call(self, method: str, path: str, *, body: Any = None, **_: Any) -> tuple[int, Any]:
        if self.is_cut_off:
            raise NoAnswer("cut off")
        if "leases" in path:
            return await self.server.call(method, body)
        holders = [each for each in self.everybody if each.leadership.holds()]
        assert holders == [self], "another one may write at this moment, too"
        self.led += 1
        return 200, {**OBJECT, "metadata": {**OBJECT["metadata"], "resourceVersion": "1"}}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lead())
            group.create_task(self._write())

    async def _lead(self) -> None:
        while True:
            await self.leadership.lead(asyncio.Event().wait)  # type: ignore[arg-type]  # never ends

    async def _write(self) -> None:
        while True:
            try:
                await self.cluster.apply(OBJECT)
            except WriteFailed:
                self.refused += 1
            await asyncio.sleep(0.005)


@pytest.fixture
async def replicas():
    server, everybody = Server(), []
    everybody += [Replica(server, everybody) for _ in range(3)]
    tasks = [asyncio.ensure_future(each.run()) for each in everybody]
    yield everybody
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def until(condition) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(3))
async def test_however_replicas_are_cut_off_no_two_may_write_at_once(replicas, seed):
    dice = random.Random(seed)
    for _ in range(12):
        for each in replicas:
            each.is_cut_off = dice.random() < 0.5
        await asyncio.sleep(dice.choice((0.05, 0.3, 0.7)))
    for each in replicas:
        each.is_cut_off = False

    written = [each.led for each in replicas]
    await until(lambda: any(e.led > before for e, before in zip(replicas, written, strict=True)))
    assert all(each.refused for each in replicas)


async def test_a_leader_that_lost_its_lease_takes_it_again(replicas):
    await until(lambda: any(each.led for each in replicas))
    for each in replicas:
        each.is_cut_off = True
    await until(lambda: not any(each.leadership.holds() for each in replicas))
    written = sum(each.led for each in replicas)
    await asyncio.sleep(0.1)
    assert sum(each.led for each in replicas) == written

    for each in replicas:
        each.is_cut_off = False
    await until(lambda: sum(each.led for each in replicas) > written)


class TestOneProcess:
    """What it does when its Lease comes and goes, and when kopf ends."""

    @pytest.fixture
    def operator(self):
        operator = Operator(object(), OperatorSettings(webhook={"enabled": False}), Metrics())
        for cache in operator.cluster.caches():
            cache.synced.set()
        return operator

    async def test_a_lost_lease_ends_the_work_and_the_next_one_begins_it_with_no_memory(
        self, operator, monkeypatch
    ):
        memories = []

        class Twice:
            """A Lease that is lost twice, and then is not to be had."""

            async def lead(self, work):
                if len(memories) == 2:
                    await asyncio.Event().wait()
                working = asyncio.ensure_future(work())
                await asyncio.sleep(0.01)
                memories.append(operator._memory)
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working
                return False

        operator._leadership = Twice()
        monkeypatch.setattr(operator, "_watch_by_kopf", asyncio.Event().wait)
        task = asyncio.ensure_future(operator._lead())
        await until(lambda: len(memories) == 2)

        assert not task.done()
        assert memories[0] is not memories[1]
        task.cancel()

    async def test_kopf_is_started_again_when_it_fails(self, operator, monkeypatch):
        starts = []

        async def ends(**options):
            starts.append(options)
            raise RuntimeError("403: the API server has just come up")

        monkeypatch.setattr("tidegate.shell.operate.kopf.operator", ends)
        monkeypatch.setattr("tidegate.shell.operate._KOPF_SECONDS", 0.0)
        monkeypatch.setattr("tidegate.shell.operate._connection", lambda configuration: None)
        operator._api = type("Api", (), {"configuration": None})()
        task = asyncio.ensure_future(operator._watch_by_kopf())
        await until(lambda: len(starts) >= 3)

        assert not task.done()
        task.cancel()

    async def test_a_signal_that_kopf_took_ends_the_process(self, operator, monkeypatch):
        async def told_to_stop():
            await asyncio.sleep(0.01)

        class Held:
            """A Lease that is not lost."""

            async def lead(self, work):
                await work()
                return True

        operator._leadership = Held()
        monkeypatch.setattr(operator, "_watch_by_kopf", told_to_stop)
        async with asyncio.timeout(10):
            await operator._lead()
