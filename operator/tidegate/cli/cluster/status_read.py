"""What `tidegate status` asks the cluster: the resource, its canary, and what each gate tells."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.cli.cluster import access, canary_read, untold
from tidegate.cli.cluster.access import Access, Document
from tidegate.cli.cluster.canary_read import Canary
from tidegate.cli.cluster.gate_reach import GateReach, GateSilent
from tidegate.cli.cluster.status_sum import GateAnswer
from tidegate.cli.cluster.untold import UntoldPod
from tidegate.core import names


@dataclass(frozen=True)
class Found:
    """The resource as it is stored, what its gates answer, and its canary if it has one.

    `untold` are pods that no gate tells of.
    """

    resource: Document
    gates: list[GateAnswer]
    canary: Canary | None = None
    untold: Sequence[UntoldPod] = ()


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
        pods = await cluster.pods({names.LABEL_DEPLOYMENT: name})
        asked = (ask_gate(reach, pod) for pod in untold.gates_of(pods))
        gates = await asyncio.gather(*asked)
        return Found(
            resource,
            list(gates),
            await canary_read.ask(cluster, resource),
            untold.pods(pods, gates, time.time()),
        )


async def ask_gate(reach: GateReach, pod: str) -> GateAnswer:
    """Return one gate's `/podz`, or why there is none."""
    try:
        told = json.loads(await reach.read(pod, "/podz"))
    except (GateSilent, ValueError) as error:
        return GateAnswer(pod, None, str(error))
    if not isinstance(told, dict):
        return GateAnswer(pod, None, "the gate answers no document")
    return GateAnswer(pod, told)
