"""What `tidegate status` asks the cluster: the resource, its canary, and what each gate tells."""

import asyncio
import json
from dataclasses import dataclass

from tidegate.cli.cluster import access, canary_read
from tidegate.cli.cluster.access import Access, Document
from tidegate.cli.cluster.canary_read import Canary
from tidegate.cli.cluster.gate_reach import GateReach, GateSilent
from tidegate.cli.cluster.status_sum import GateAnswer


@dataclass(frozen=True)
class Found:
    """The resource as it is stored, what its gates answer, and its canary if it has one."""

    resource: Document
    gates: list[GateAnswer]
    canary: Canary | None = None


def ask(where: Access, name: str) -> Found:
    """Return what there is to say.

    Raises:
        Denied: There is no such resource, or the user may not read it.
        Invalid: The cluster cannot be reached.
    """
    return asyncio.run(_ask(where, name))


async def _ask(where: Access, name: str) -> Found:
    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        resource = await cluster.deployment(name)
        pods = [str(pod["metadata"]["name"]) for pod in await cluster.gate_pods(name)]
        gates = await asyncio.gather(*(ask_gate(reach, pod) for pod in pods))
        return Found(resource, list(gates), await canary_read.ask(cluster, resource))


async def ask_gate(reach: GateReach, pod: str) -> GateAnswer:
    """Return one gate's `/podz`, or why there is none."""
    try:
        told = json.loads(await reach.read(pod, "/podz"))
    except (GateSilent, ValueError) as error:
        return GateAnswer(pod, None, str(error))
    if not isinstance(told, dict):
        return GateAnswer(pod, None, "the gate answers no document")
    return GateAnswer(pod, told)
