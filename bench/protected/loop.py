"""The operator's slow loop around real gates, without an API server.

The tick, its decision and the port to Prometheus are the operator's own. What a pass would write
into the gates' ConfigMap is written into the files that the gates read.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, cast

import yaml

from bench.deployments import EXAMPLES
from bench.protected.stage import NAMESPACE, Deployment
from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.overload import gate_shares
from tidegate.core.overload.decision import Decision
from tidegate.flow import overload
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Cluster, Document, Ref, Settings
from tidegate.shell import prometheus
from tidegate.shell.settings import Prometheus


class Papers:
    """The part of a cluster that a tick reads: the resources, with gates that serve."""

    def __init__(self, specs: dict[Ref, Document]) -> None:
        self._documents = {ref: _document(ref, spec) for ref, spec in specs.items()}

    def refs(self) -> Sequence[Ref]:
        """Return all deployments."""
        return list(self._documents)

    def deployment(self, ref: Ref) -> Document | None:
        """Return one of them."""
        return self._documents.get(ref)

    def owned(self, kind: str, ref: Ref) -> Sequence[Document]:
        """Return no pods: that one is not scraped is another case than these."""
        return []


class WallClock:
    """The time of this machine."""

    def now(self) -> float:
        """Return seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()


class Loop:
    """Ticks, and writes what was decided for each deployment.

    Args:
        made: The deployments, by whose names `overloads` has `spec.overload` of each.
        overloads: `spec.overload` as a user writes it.
        url: Of Prometheus.
        scrape_seconds: How often that scrapes.
        tick_seconds: How often the loop looks.
    """

    def __init__(
        self,
        made: Sequence[Deployment],
        overloads: dict[str, Document],
        url: str,
        scrape_seconds: float,
        tick_seconds: float,
    ) -> None:
        self._made = {Ref(NAMESPACE, one.name): one for one in made}
        self._specs = {ref: OverloadSpec.model_validate(overloads[ref.name]) for ref in self._made}
        self._papers = Papers({ref: overloads[ref.name] for ref in self._made})
        told = {"url": url, "scrapeInterval": f"{scrape_seconds}s", "tick": f"{tick_seconds}s"}
        self._prometheus = Prometheus.model_validate(told)
        self._metrics = prometheus.make(self._prometheus, lambda *_: None)
        self._memory = Memory()
        self._written: dict[Ref, Decision] = {}

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            begun = time.monotonic()
            await self._tick()
            left = self._prometheus.tick - (time.monotonic() - begun)
            await asyncio.sleep(max(0.0, left))

    def decision(self, name: str) -> Decision:
        """Return what holds for a deployment."""
        return self._written.get(Ref(NAMESPACE, name), Decision())

    def told(self, name: str) -> str:
        """Return what the loop says of its data on a deployment: a reason."""
        seen = self._memory.overload.seen.get(Ref(NAMESPACE, name))
        return str(seen.metrics.reason) if seen else ""

    async def _tick(self) -> None:
        cluster = cast(Cluster, self._papers)  # a tick only reads resources and pods
        settings = Settings(tick=self._prometheus.for_tick())
        ticked = await overload.tick(cluster, self._metrics, WallClock(), settings, self._memory)
        if ticked.failed:
            raise next(iter(ticked.failed.values()))
        for ref, one in self._made.items():
            document = self._papers.deployment(ref)
            assert document is not None
            decision = overload.decision_of(ref, document, self._memory.overload)
            if decision is not None and decision != self._written.get(ref):
                self._written[ref] = decision
                shed = gate_shares.shed(decision, self._specs[ref])
                one.write(shed=_wire(shed), shift=_wire(gate_shares.shift(decision, 80)))


def _wire(share: Any) -> Document | None:
    return None if share is None else share.model_dump(mode="json", by_alias=True)


def _document(ref: Ref, spec: Document) -> Document:
    document = yaml.safe_load((EXAMPLES / "unified.yaml").read_text(encoding="utf-8"))
    document["metadata"] = {
        "name": ref.name,
        "namespace": ref.namespace,
        "uid": ref.name,
        "generation": 1,
    }
    document["spec"]["overload"] = spec
    pools = [{"name": "unified", "ready": 1}]
    return {**document, "status": {"gate": {"desired": 1, "ready": 1}, "pools": pools}}
