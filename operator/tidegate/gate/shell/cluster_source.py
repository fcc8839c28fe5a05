"""Configuration and endpoints of a gate in a cluster, with copies of both on disk.

Until the API server answers, the copies are all that is known, and they are good enough to serve
by: a pod that is gone shows at the first connection.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

import orjson

from tidegate.api.gate_config import GateConfig
from tidegate.gate.shell import endpoints
from tidegate.gate.shell.api_server import Account, ApiServer, Document
from tidegate.gate.shell.configuration import Configuration
from tidegate.gate.shell.disk_copy import DiskCopy
from tidegate.gate.shell.endpoints import Endpoints
from tidegate.gate.shell.source import Changed
from tidegate.gate.shell.watching import Watch

_LOG = logging.getLogger(__name__)
CONFIG_COPY = "gate.json"
SLICES_COPY = "endpointslices.json"


class ClusterSource:
    """One ConfigMap, and the EndpointSlices of the Services that it names."""

    def __init__(
        self,
        account: Account,
        namespace: str,
        config_map: str,
        state_folder: Path,
        configuration: Configuration,
        changed: Changed,
    ) -> None:
        self._api = ApiServer(account)
        self._configuration = configuration
        self._changed = changed
        self._config_copy = DiskCopy(state_folder / CONFIG_COPY)
        self._slices_copy = DiskCopy(state_folder / SLICES_COPY)
        self._slices: list[Document] | None = None
        self._slices_path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        self._reconfigured = asyncio.Event()
        self._started_at = time.monotonic()
        self._watches = {
            "configuration": Watch(
                f"/api/v1/namespaces/{namespace}/configmaps",
                {"fieldSelector": f"metadata.name={config_map}"},
                self._take_config,
            )
        }

    def start(self) -> None:
        """Use the copies on disk."""
        data = self._slices_copy.read()
        if data is not None:
            self._slices = _documents(data)
        config = self._config_copy.read()
        if config is not None:
            self._configuration.offer(config, "disk")

    async def run(self) -> None:
        """Watch both until cancelled."""
        async with asyncio.TaskGroup() as group:
            for copy in (self._config_copy, self._slices_copy):
                group.create_task(copy.run())
            group.create_task(self._watches["configuration"].run(self._api))
            group.create_task(self._follow_services())

    def endpoints(self, config: GateConfig) -> Endpoints | None:
        """Return the endpoints as the configuration reads them."""
        return None if self._slices is None else endpoints.read(self._slices, config)

    def silences(self) -> Mapping[str, float]:
        """Return for how many seconds each watch has not heard the API server."""
        now = time.monotonic()
        return {
            what: now - (watch.heard_at or self._started_at)
            for what, watch in self._watches.items()
        }

    async def close(self) -> None:
        """Let go of every connection."""
        await self._api.close()

    def _take_config(self, objects: Mapping[str, Document]) -> None:
        good = self._configuration.changed(objects)
        if good is not None:
            self._config_copy.keep(good)
        self._reconfigured.set()

    def _take_slices(self, objects: Mapping[str, Document]) -> None:
        self._slices = [endpoints.without_the_rest(item) for item in objects.values()]
        self._slices_copy.keep(orjson.dumps(self._slices))
        self._changed()

    def _services(self) -> tuple[str, ...]:
        config = self._configuration.current
        return endpoints.services(config) if config else ()

    async def _follow_services(self) -> None:
        """Watch the EndpointSlices of the Services that the configuration names at the time."""
        while True:
            services = self._services()
            until_others = asyncio.create_task(self._until_not(services))
            following = asyncio.create_task(self._watch_slices(services))
            try:
                await asyncio.wait({until_others, following}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()  # it never ends but by a bug, which is raised here
            finally:
                until_others.cancel()
                following.cancel()

    async def _until_not(self, services: tuple[str, ...]) -> None:
        while self._services() == services:
            self._reconfigured.clear()
            await self._reconfigured.wait()

    async def _watch_slices(self, services: tuple[str, ...]) -> None:
        if not services:
            await asyncio.Event().wait()  # for ever: nothing is known of Services yet
        selector = f"{endpoints.SERVICE_LABEL} in ({','.join(services)})"
        watch = Watch(self._slices_path, {"labelSelector": selector}, self._take_slices)
        self._watches["endpoints"] = watch
        await watch.run(self._api)


def _documents(data: bytes) -> list[Document] | None:
    try:
        held = orjson.loads(data)
    except ValueError:
        held = None
    if not isinstance(held, list):
        _LOG.warning("the copy of the endpoints is damaged and not used")
        return None
    return [item for item in held if isinstance(item, dict)]
