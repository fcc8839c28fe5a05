"""A gate in a cluster watches its ConfigMap and the EndpointSlices of the Services in it."""

import asyncio
import contextlib
import json

import pytest
from tests.unit.gate.shell.documents import (
    CONFIG,
    config_bytes,
    config_map,
    endpoint,
    endpoint_slice,
)
from tests.unit.gate.shell.scripted_api import ScriptedApi, until

from tidegate.gate.shell.api_server import Account
from tidegate.gate.shell.cluster_source import ClusterSource
from tidegate.gate.shell.configuration import Configuration

POD = "qwen-unified-aaaa-h100-5d8f7c-x2x4z"


class TwoKinds(ScriptedApi):
    """Answers for ConfigMaps and EndpointSlices apart; watches stay silent."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = [config_map(config_bytes().decode())]
        self.map_events: list[list[object] | int] = []
        self.slices = [
            endpoint_slice("qwen-unified", endpoint(POD, "10.0.0.1", ready=True)),
            endpoint_slice("qwen", endpoint("g1", "10.0.1.1"), endpoint("g2", "10.0.1.2")),
        ]

    async def _answer(self, request):
        is_map = request.path.endswith("/configmaps")
        self.items = self.maps if is_map else self.slices
        self.watches = self.map_events if is_map else []
        return await super()._answer(request)


class Running:
    """A source, its configuration and how often it told of endpoints."""

    def __init__(self, url, folder) -> None:
        (folder / "token").write_text("t")
        self.told = 0
        self.configuration = Configuration("chat", "qwen", lambda config: None)
        self.source = ClusterSource(
            Account(url, folder),
            "chat",
            "qwen-gate",
            folder / "state",
            self.configuration,
            self._changed,
        )

    def _changed(self):
        self.told += 1

    def endpoints(self):
        config = self.configuration.current
        return config and self.source.endpoints(config)


@contextlib.asynccontextmanager
async def running(url, folder):
    made = Running(url, folder)
    made.source.start()
    task = asyncio.create_task(made.source.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.source.close()


@pytest.fixture
async def cluster():
    scripted = TwoKinds()
    await scripted.start()
    yield scripted
    await scripted.stop()


async def test_it_learns_configuration_and_endpoints(cluster, tmp_path):
    async with running(cluster.url, tmp_path) as made:
        await until(lambda: made.told)
        found = made.endpoints()

    assert [pod.name for pod in found.pods["unified"]] == [POD]
    assert found.gates == 2
    assert cluster.asked[0] == {"fieldSelector": "metadata.name=qwen-gate"}
    selectors = {query.get("labelSelector") for query in cluster.asked}
    assert "kubernetes.io/service-name in (qwen,qwen-unified)" in selectors


async def test_a_gate_that_starts_while_the_api_server_is_away_serves_by_its_copies(
    cluster, tmp_path
):
    copies = tmp_path / "state"
    async with running(cluster.url, tmp_path) as made:
        await until(lambda: (copies / "gate.json").exists())
        await until(lambda: (copies / "endpointslices.json").exists())
        before = made.endpoints()
    await cluster.stop()
    async with running(cluster.url, tmp_path) as made:
        assert made.configuration.current.generation == 3
        assert made.endpoints() == before
        assert made.configuration.told().source == "disk"


@pytest.mark.parametrize("damage", [b"", b"{", b"[1,2", b"3", b"\xff\xfe"])
async def test_damaged_copies_are_as_good_as_none(cluster, tmp_path, damage):
    (tmp_path / "state").mkdir()
    for name in ("gate.json", "endpointslices.json"):
        (tmp_path / "state" / name).write_bytes(damage)
    async with running(cluster.url, tmp_path) as made:
        assert made.configuration.current is None
        await until(lambda: made.told)
        assert made.configuration.told().is_valid


async def test_a_copy_of_another_deployment_is_not_used(cluster, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "gate.json").write_bytes(config_bytes(deployment="other"))
    await cluster.stop()
    async with running(cluster.url, tmp_path) as made:
        assert made.configuration.current is None


async def test_a_bad_document_is_not_kept_on_disk(cluster, tmp_path):
    cluster.maps = [config_map('{"namespace": "chat"}')]
    async with running(cluster.url, tmp_path) as made:
        await until(lambda: made.configuration.told().error)
        await asyncio.sleep(0.1)

    assert not (tmp_path / "state" / "gate.json").exists()


async def test_other_services_are_watched_when_the_configuration_names_others(cluster, tmp_path):
    renamed = {**CONFIG, "services": {"unified": "qwen-other"}, "generation": 4}
    changed = {"type": "MODIFIED", "object": config_map(json.dumps(renamed), version="11")}
    cluster.map_events = [[changed]]
    async with running(cluster.url, tmp_path):
        await until(
            lambda: (
                "kubernetes.io/service-name in (qwen,qwen-other)"
                in {query.get("labelSelector") for query in cluster.asked}
            )
        )
