"""`tidegate drain`: have a pod leave as Kubernetes would, and wait until it is gone."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import click

from tidegate.cli.cluster import access, completing, gate_metrics
from tidegate.cli.cluster.access import Access, Cluster, access_options
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_metrics import Readings
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.inputs import documents
from tidegate.cli.levers import drain_look
from tidegate.cli.levers.confirming import Acting, waiting
from tidegate.cli.levers.drain_look import Seated
from tidegate.cli.levers.lever_options import Duration, Named, acting_options, name_argument
from tidegate.core.levers import load
from tidegate.errors import Invalid

_LOOK_SECONDS = 1.0


@click.command("drain", short_help="Have a pod leave, and wait until it is gone.")
@name_argument
@click.argument("pod", type=Named(dots=True), shell_complete=completing.pods)
@click.option(
    "--timeout",
    "seconds",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait until it is gone.",
)
@access_options
@acting_options
def command(
    name: str,
    pod: str,
    seconds: float,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    dry_run: bool,
    yes: bool,
    form: str,
) -> None:
    """Evict POD, which keeps the pool's disruption budget, and tell how its requests end.

    Says first what is on it, and asks. The gates send it nothing more as soon as it leaves.

    Example: kubectl tidegate drain qwen3-32b qwen3-32b-decode-5c9d-x2x4z
    """
    acting = Acting(dry_run, yes, form)
    drained = asyncio.run(
        _drain(Access(namespace, context, kubeconfig), name, pod, seconds, acting)
    )
    if form != "table":
        documents.print_documents([drained.document()], form)


@dataclass(frozen=True)
class Drained:
    """How it went: `ended` counts what ended meanwhile on all pods, by outcome."""

    name: str
    namespace: str
    pod: str
    before: Seated
    dry_run: bool
    warnings: Sequence[str] = ()
    seconds: float | None = None
    ended: dict[str, int] | None = None

    def document(self) -> dict[str, Any]:
        """Return it as `--output json` shows it."""
        total = self.before.seats.total
        return {
            "name": self.name,
            "namespace": self.namespace,
            "pod": self.pod,
            "pool": self.before.pool,
            "dryRun": self.dry_run,
            "gates": self.before.seats.gates.document(),
            "requests": None if total is None else total.requests,
            "reservedTokens": None if total is None else total.reserved_tokens,
            "gone": self.seconds is not None,
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "endedMeanwhile": self.ended,
            "warnings": list(self.warnings),
        }


async def _drain(where: Access, name: str, pod: str, seconds: float, acting: Acting) -> Drained:
    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        before = await drain_look.look(cluster, reach, name, pod)
        node = before.pod["spec"].get("nodeName") or "no node"
        heading = f"{cluster.namespace}/{name}: evict {pod} (pool {before.pool}, on {node})."
        acting.tell([heading, *before.sentences()])
        acting.confirm(f"Drain {pod}?")
        gates = [str(gate["metadata"]["name"]) for gate in await cluster.gate_pods(name)]
        first = await gate_metrics.read(reach, gates)
        await _evict(cluster, before, acting.dry_run)
        acting.tell(f"Warning: {told}" for told in cluster.warnings)
        drained = Drained(
            name, cluster.namespace, pod, before, acting.dry_run, tuple(cluster.warnings)
        )
        if acting.dry_run:
            acting.tell(["Not evicted, as a dry run is; the API server would do it."])
            return drained
        with waiting(f"waiting until {pod} is gone"):
            took = await _gone(cluster, reach, before, name, seconds, acting)
        ended = _ended(first, await gate_metrics.read(reach, list(first)))
        acting.tell([f"Gone after {took:.0f} s.", _told(ended)])
        return replace(drained, seconds=took, ended=ended)


async def _evict(cluster: Cluster, seated: Seated, dry_run: bool) -> None:
    metadata = seated.pod["metadata"]
    status, answer = await cluster.call(
        "POST",
        f"/api/v1/namespaces/{cluster.namespace}/pods/{metadata['name']}/eviction",
        query={"dryRun": "All"} if dry_run else None,
        body={
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": cluster.namespace},
            "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
        },
    )
    if status == 429:
        raise Denied(
            f"{metadata['name']} stays: {access.message_of(answer)} Wait until every {seated.kind} "
            f"is ready, or add one ({seated.replicas_field}), and try again"
        )
    if status >= 400 and status != 404:  # 404: it has gone by itself
        raise access.denied(status, answer)


async def _gone(
    cluster: Cluster, reach: GateReach, before: Seated, name: str, seconds: float, acting: Acting
) -> float:
    """Wait until the pod is gone, tell what is left on it, and return how long it took.

    What fails meanwhile is tried again: the pod leaves, whatever becomes of the looks.
    """
    metadata = before.pod["metadata"]
    path = f"/api/v1/namespaces/{cluster.namespace}/pods/{metadata['name']}"
    began, left, failed = time.monotonic(), before.seats.requests, ""
    while time.monotonic() - began < seconds:
        try:
            pod = await cluster.get(path)
            if pod is None or pod["metadata"]["uid"] != metadata["uid"]:
                return time.monotonic() - began
            now, failed = await drain_look.seats(cluster, reach, name, metadata["name"]), ""
            if now.total is not None and now.requests != left:
                left = now.requests
                acting.tell([f"{datetime.now(UTC):%H:%M:%SZ} {left} requests are left on it"])
        except (Denied, Invalid) as error:
            failed = f"; the last look at it failed: {access.line(error)}"
        await asyncio.sleep(_LOOK_SECONDS)
    there = "an unknown number of" if left == "unknown" else left
    raise Denied(
        f"{metadata['name']} is still there after {seconds:g} s, with {there} requests{failed}; it "
        "goes on leaving by itself. Wait longer with --timeout, or look at kubectl describe pod"
    )


def _ended(first: Readings, last: Readings) -> dict[str, int] | None:
    """Return what ended in between; None where no gate told of it."""
    return load.outcomes(first, last) if first.keys() & last.keys() else None


def _told(ended: dict[str, int] | None) -> str:
    if ended is None:
        return "How its requests ended is unknown: no gate tells."
    if not ended:
        return "Meanwhile no request ended on any pod."
    counts = ", ".join(f"{outcome} {count}" for outcome, count in ended.items())
    return f"Meanwhile ended, on all pods: {counts}."
