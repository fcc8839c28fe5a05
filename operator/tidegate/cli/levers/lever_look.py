"""What there is before a lever is pulled: the resource, its gates' load, and the target's."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.api.overload_spec import ShedSpec, UsageThreshold
from tidegate.cli.cluster import access, gate_metrics
from tidegate.cli.cluster.access import Access, Cluster, Document
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.core.levers import lever as levers
from tidegate.core.levers import load as loads
from tidegate.core.levers import present as presents
from tidegate.core.levers.load import Load
from tidegate.core.levers.present import Present
from tidegate.core.levers.target import Target

WINDOW_SECONDS = 3.0
"""Between the two reads of the gates' counters."""


@dataclass(frozen=True)
class Seen:
    """A deployment before the lever.

    Attributes:
        namespace: Where it is.
        resource: As it is stored.
        load: What its gates count.
        present: The shares that hold.
        before: The lever that holds; None where none does.
        floor: The class from which on no request is turned away.
        target: Where requests are to be shifted, with its load.
    """

    namespace: str
    resource: Document
    load: Load
    present: Present
    before: Document | None
    floor: int
    target: Target | None = None

    @property
    def path(self) -> str:
        """Where the resource is on the API server."""
        return access.deployment_path(self.namespace, self.resource["metadata"]["name"])


async def look(where: Access, name: str, to: str | None = None) -> Seen:
    """Read a deployment, and the one that requests are to be shifted to.

    Raises:
        Denied: One is not there or has no gate, or no operator looks after them.
    """
    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        if to == name:
            raise Denied(f"--to {to} is the deployment itself; name another one of the namespace")
        resource = await _governed(cluster, name)
        other = None if to is None else await _governed(cluster, to)
        measured = await asyncio.gather(
            *(_measure(cluster, reach, each) for each in (name, to) if each is not None)
        )
        return Seen(
            cluster.namespace,
            resource,
            measured[0],
            presents.present(measured[0], _status(resource)),
            levers.held(resource, datetime.now(UTC)),
            _floor(resource),
            None if other is None else _target(other, measured[1]),
        )


async def _governed(cluster: Cluster, name: str) -> Document:
    """Return a deployment that a lever can act on."""
    resource = await cluster.deployment(name)
    if (resource["spec"].get("gate") or {}).get("enabled") is False:
        raise Denied(
            f"{name} has no gate (spec.gate.enabled is false), and a lever acts at the gate; "
            "enable it, or change the load where clients come from"
        )
    if not (resource.get("status") or {}).get("observedGeneration"):
        raise Denied(
            f"no operator has looked at {name} yet, so nobody would act on a lever; look at "
            "kubectl get pods -A -l app.kubernetes.io/name=tidegate"
        )
    return resource


async def _measure(cluster: Cluster, reach: GateReach, name: str) -> Load:
    """Return the load as the gates count it; nothing is known where the user may not ask them."""
    try:
        pods = [str(pod["metadata"]["name"]) for pod in await cluster.gate_pods(name)]
    except Denied:
        return Load()
    before = await gate_metrics.read(reach, pods)
    if before:
        await asyncio.sleep(WINDOW_SECONDS)
    return loads.load(before, await gate_metrics.read(reach, list(before)), len(pods))


def _floor(resource: Document) -> int:
    shed = _spec(resource).get("shed") or {}
    return int(shed.get("floor", ShedSpec().floor))


def _target(resource: Document, load: Load) -> Target:
    overload, usage = _status(resource), _spec(resource).get("kvUsage") or {}
    return Target(
        str(resource["metadata"]["name"]),
        load,
        presents.present(load, overload),
        str(overload.get("state") or ""),
        float(usage.get("exit", UsageThreshold().exit)),
    )


def _spec(resource: Document) -> Document:
    return resource["spec"].get("overload") or {}


def _status(resource: Document) -> Document:
    return (resource.get("status") or {}).get("overload") or {}
