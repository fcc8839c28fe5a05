"""What a review may know of the world: the operator's caches, cut to one resource."""

import time
from collections.abc import Callable, Sequence

from tidegate.core import nodes
from tidegate.core.admission import Facts, Rules
from tidegate.core.names import LABEL_POOL
from tidegate.core.nodes import Node, NodeClassSetting
from tidegate.flow import node_grace
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Ref
from tidegate.shell.admission.wire import Request
from tidegate.shell.cluster import KubernetesCluster


class Seen:
    """The facts of a review, without a call.

    Nodes that are away for a moment count as in a pass. The same tuple of nodes is given until one
    of them changes, so that what was planned for it is not planned again.
    """

    def __init__(
        self,
        cluster: KubernetesCluster,
        rules: Rules,
        classes: Sequence[NodeClassSetting],
        grace_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
        *,
        can_judge: bool = False,
    ) -> None:
        self._cluster = cluster
        self._rules = rules
        self._classes = classes
        self._grace_seconds = grace_seconds
        self._monotonic = monotonic
        self._clock = clock
        self._can_judge = can_judge
        self._memory = Memory()
        self._nodes: tuple[Node, ...] = ()
        self._version = -1
        self._until = float("inf")

    def facts(self, request: Request) -> Facts:
        """Return what is known to the review of a request.

        A ConfigMap with the model's config.json is unknown: none is cached, and none is asked for.
        """
        ref = Ref(request.namespace, request.name)
        deployments = self._cluster.owned("Deployment", ref)
        pools = (d["metadata"]["labels"].get(LABEL_POOL) for d in deployments)
        return Facts(
            nodes=self.nodes(),
            gpu_pods=self._cluster.gpu_pods(),
            others=tuple(
                document
                for document in self._cluster.deployments.all()
                if document["metadata"]["namespace"] == ref.namespace
                and document["metadata"]["name"] != ref.name
            ),
            selectors=self._cluster.selectors(ref.namespace),
            pools_there=frozenset(filter(None, pools)),
            rules=self._rules,
            can_judge=self._can_judge,
            now=self._clock(),
        )

    def nodes(self) -> tuple[Node, ...]:
        """Return every node, with its class through short absences."""
        now, version = self._monotonic(), self._cluster.nodes_version
        if version != self._version or now >= self._until:
            current = [
                offer
                for document in self._cluster.nodes()
                for offer in nodes.offers(document, self._classes)
            ]
            steady, rest = node_grace.steady(current, self._memory, now, self._grace_seconds)
            self._version = version
            self._until = now + rest if rest is not None else float("inf")
            if tuple(steady) != self._nodes:
                self._nodes = tuple(steady)
        return self._nodes
