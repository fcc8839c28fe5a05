"""A gate's parts, and how what one of them learns reaches the others."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.errors import Invalid
from tidegate.gate.core import keys
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Pod, View
from tidegate.gate.shell.configuration import Configuration
from tidegate.gate.shell.endpoints import Endpoints
from tidegate.gate.shell.knowledge_metrics import KnowledgeMetrics
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.pod_metrics import PodMetrics
from tidegate.gate.shell.scrape import Scraper
from tidegate.gate.shell.source import Changed, Source
from tidegate.gate.shell.telemetry import Telemetry
from tidegate.gate.wire.observer import Finished

_LOG = logging.getLogger(__name__)
_NO_ENDPOINTS = Endpoints({}, 1)

MakeSource = Callable[[Configuration, Changed], Source]


class Gate:
    """The core and what feeds it."""

    def __init__(
        self,
        namespace: str,
        deployment: str,
        metrics: Metrics,
        make_source: MakeSource,
        listeners: Sequence[Callable[[Finished], None]] = (),
    ) -> None:
        self.metrics = metrics
        self.telemetry = Telemetry(self.metrics, listeners)
        self.reader = Reader(None, Keys())
        choice = Choice()
        self.admissions = Admissions(jitter=random.random, choice=choice, joins=True)
        self.configuration = Configuration(namespace, deployment, self._use)
        self.scraper = Scraper(self.admissions.observe, self._scraped)
        self.is_draining = False
        self._endpoints = _NO_ENDPOINTS
        self.source = make_source(self.configuration, self.endpoints_changed)
        metrics.registry.register(PodMetrics(self.view, choice))
        metrics.registry.register(KnowledgeMetrics(self.configuration.told, self.source.silences))

    def config(self) -> GateConfig | None:
        """Return the configuration in use."""
        return self.configuration.current

    def view(self) -> View:
        """Return the core's state as it is now."""
        return self.admissions.view(time.monotonic(), time.time())

    def why_not_ready(self) -> str | None:
        """Say why clients are not to be sent here; None when they are.

        A gate without endpoints is ready: it answers 503 with the reason, and when to come back.
        """
        if self.is_draining:
            return "draining"
        return None if self.config() else "no configuration yet"

    def pods(self, pool: PoolName, revision: str) -> list[Pod]:
        """Return the pods that serve a revision in a pool."""
        found = self._endpoints.pods.get(pool, ())
        return [pod for pod in found if pod.revision == revision and not pod.terminating]

    def endpoints_changed(self) -> None:
        """Look at the endpoints anew."""
        config = self.config()
        if config is not None:
            self._share(config)

    async def take_keys(self, data: bytes) -> None:
        """Take the content of the keys file; of a bad one the last good content stays.

        It is read in a thread: ten thousand tenants take a while.
        """
        try:
            held = await asyncio.to_thread(lambda: keys.parse(data.decode()))
        except (Invalid, UnicodeDecodeError) as error:
            # the text of the file is never part of the message
            why = str(error) if isinstance(error, Invalid) else "it is not UTF-8"
            _LOG.error("keys refused, the last good ones stay", extra={"error": why})
            return
        self.reader.use_keys(held)
        _LOG.info("keys in use", extra={"keys": len(held)})

    def leave(self) -> None:
        """Tell who asks that no new client is to come."""
        self.is_draining = True
        self.metrics.draining.set(1)

    async def close(self) -> None:
        """Stop reading from anywhere."""
        await self.scraper.close()
        await self.source.close()

    def _use(self, config: GateConfig) -> None:
        """Hand a configuration to every part."""
        self.telemetry.configure(config)
        self.reader.configure(config)
        self.admissions.configure(config, time.monotonic())
        self._share(config)

    def _share(self, config: GateConfig) -> None:
        """Hand the endpoints to those who need them, if they are others than before."""
        found = self.source.endpoints(config)
        if found is None or found == self._endpoints:
            return
        now = time.monotonic()
        self.admissions.gates(found.gates)
        for pool in {**self._endpoints.pods, **found.pods}:
            self.admissions.endpoints(pool, found.pods.get(pool, ()), now)
        self.scraper.follow([pod for pods in found.pods.values() for pod in pods], found.gates)
        self.metrics.gates.set(found.gates)
        self.metrics.unknown_pods.set(len(found.unknown))
        self._endpoints = found

    def _scraped(self, result: str) -> None:
        self.metrics.scrapes.labels(result).inc()
