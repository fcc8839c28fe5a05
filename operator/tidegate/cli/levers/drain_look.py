"""What is on a pod before it is drained, and what becomes of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.cli.cluster import status_read, status_sum
from tidegate.cli.cluster.access import Cluster, Document
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.cluster.status_sum import PodTotal
from tidegate.core import names
from tidegate.core.levers.gates import Gates

_DEFAULT_GRACE_SECONDS = 30
"""Kubernetes' own terminationGracePeriodSeconds."""


@dataclass(frozen=True)
class Seats:
    """What the gates have on a pod.

    Attributes:
        gates: How many there are, and how many tell: each has seats of its own on the pod.
        total: What those have on it; None where none tells of it.
        others: The pods of the same pool that requests can go to.
    """

    gates: Gates
    total: PodTotal | None
    others: Sequence[PodTotal] = ()

    @property
    def requests(self) -> str:
        """Say how many requests are on it."""
        return "unknown" if self.total is None else f"{self.gates.at_least}{self.total.requests}"

    def said(self) -> str:
        """Say what is on it."""
        if self.total is None:
            return "Requests on it now: unknown, no gate tells of it."
        return (
            f"Requests on it now{self.gates.by}: {self.requests}, with "
            f"{self.total.reserved_tokens:,} of {self.total.capacity_tokens:,} KV tokens reserved."
        )


@dataclass(frozen=True)
class Seated:
    """A pod and what is on it."""

    pod: Document
    seats: Seats

    @property
    def pool(self) -> str:
        """Its pool; `gate` for the pod of a gate."""
        labels = self.pod["metadata"].get("labels") or {}
        return str(labels.get(names.LABEL_POOL) or names.GATE)

    @property
    def kind(self) -> str:
        """What it is one of, in words."""
        return self.pool if self.pool == names.GATE else f"pod of pool {self.pool}"

    @property
    def replicas_field(self) -> str:
        """The field that says how many there are of its kind."""
        holder = "gate" if self.pool == names.GATE else f"pools.{self.pool}"
        return f"spec.{holder}.replicas"

    def sentences(self) -> list[str]:
        """Say what is on it, and where its next requests will go."""
        grace = self.pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
        return [self.seats.said(), *self._elsewhere(), f"What runs has {grace} s to end."]

    def _elsewhere(self) -> list[str]:
        gates, others = self.seats.gates, self.seats.others
        if self.seats.total is None:
            return []
        if not others:
            return [
                f"No other pod of pool {self.pool} serves{gates.by}: until a new one is ready, "
                "requests wait in the gates' queue or are refused."
            ]
        room = sum(other.capacity_tokens - other.reserved_tokens for other in others)
        count = f"{len(others)} other pod{'s' if len(others) > 1 else ''}"
        have = "have" if len(others) > 1 else "has"
        return [f"{count} of pool {self.pool} {have} {gates.at_least}{room:,} KV tokens to give."]


async def look(cluster: Cluster, reach: GateReach, name: str, pod_name: str) -> Seated:
    """Read a pod of a deployment.

    Raises:
        Denied: It is not there, or of another deployment.
    """
    await cluster.deployment(name)
    pods = await cluster.pods({names.LABEL_DEPLOYMENT: name})
    pod = next((each for each in pods if each["metadata"]["name"] == pod_name), None)
    if pod is None:
        known = ", ".join(each["metadata"]["name"] for each in pods[:8]) or "none"
        raise Denied(f"{name} has no pod {pod_name}; it has {known}")
    return Seated(pod, await seats(cluster, reach, name, pod_name))


async def seats(cluster: Cluster, reach: GateReach, name: str, pod_name: str) -> Seats:
    """Return what the gates have on a pod, and the other pods of its pool that serve."""
    pods = [str(gate["metadata"]["name"]) for gate in await cluster.gate_pods(name)]
    answers = await asyncio.gather(*(status_read.ask_gate(reach, gate) for gate in pods))
    totals = status_sum.pods(answers)
    own = next((total for total in totals if total.name == pod_name), None)
    others = [
        total
        for total in totals
        if own is not None and total.pool == own.pool and total is not own and not total.states
    ]
    telling = sum(answer.told is not None for answer in answers)
    return Seats(Gates(len(pods), telling), own, others)
