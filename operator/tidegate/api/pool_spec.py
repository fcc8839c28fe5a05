"""`spec.pools` and `spec.rollout`: how many pods, on which nodes, and how they are replaced."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tidegate.api.wire import (
    DNSName,
    IntOrPercent,
    LabelKey,
    LabelValue,
    QuantityText,
    Seconds,
    Text,
    Wire,
)

Replicas = Annotated[int, Field(ge=0, le=1000)]


class Toleration(Wire):
    """A taint that the pool's pods accept; Kubernetes' own type."""

    key: LabelKey | None = None
    """Key of the taint; every key when absent."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """How the value is compared."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every effect when absent."""
    toleration_seconds: Annotated[int, Field(ge=0, le=86400)] | None = None
    """How long a NoExecute taint is tolerated."""


class NodeRequirement(Wire):
    """One condition on a node's label; Kubernetes' own type."""

    key: LabelKey
    """Label of the node."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the values are compared."""
    values: Annotated[list[LabelValue], Field(max_length=64)] = []
    """Values to compare with."""


class PoolResources(Wire):
    """CPU and memory of a pod; the GPUs follow from the parallelism."""

    requests: Annotated[
        dict[Literal["cpu", "memory", "ephemeral-storage"], QuantityText], Field(max_length=3)
    ] = {}
    """What is reserved for the pod."""
    limits: Annotated[
        dict[Literal["cpu", "memory", "ephemeral-storage"], QuantityText], Field(max_length=3)
    ] = {}
    """What the pod may use at most."""


class NodeClassPin(Wire):
    """A class of GPU node that the pool is pinned to."""

    product: Annotated[
        str, Field(max_length=63, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    ]
    """GPU product as the node's label tells it."""
    replicas: Replicas | None = None
    """Pods on this class; divided by free GPUs when absent."""


class PodTemplate(Wire):
    """What may be added to the pool's pods."""

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Further labels; those of Tidegate and app.kubernetes.io are refused."""
    annotations: Annotated[
        dict[LabelKey, Annotated[str, Field(max_length=4096)]], Field(max_length=32)
    ] = {}
    """Further annotations; those of Tidegate are refused."""
    priority_class_name: DNSName | None = None
    """Kubernetes' own field."""
    runtime_class_name: DNSName | None = None
    """Kubernetes' own field."""
    scheduler_name: DNSName | None = None
    """Kubernetes' own field."""


class Pool(Wire):
    """One pool of alike pods."""

    replicas: Replicas = 1
    """Pods in the pool, over all classes of node."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs that share each layer."""
    pipeline_parallel: Annotated[int, Field(ge=1, le=16)] = 1
    """Stages of layers, each on its own GPUs."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Labels that a node must have."""
    node_affinity: Annotated[list[NodeRequirement], Field(max_length=32)] = []
    """Further conditions on a node's labels; all must hold."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = []
    """Taints that the pods accept."""
    node_classes: Annotated[list[NodeClassPin], Field(max_length=16)] = []
    """Classes of GPU node to use; every class that fits when empty."""
    resources: PoolResources = PoolResources()
    """CPU and memory of each pod."""
    pod_template: PodTemplate = PodTemplate()
    """What is added to the pods."""


class Pools(Wire):
    """`unified`, or both `prefill` and `decode`."""

    unified: Pool | None = None
    """Pods that do both phases."""
    prefill: Pool | None = None
    """Pods that read prompts."""
    decode: Pool | None = None
    """Pods that write answers."""

    @model_validator(mode="after")
    def _mode(self) -> "Pools":
        if self.unified is not None and (self.prefill is not None or self.decode is not None):
            raise ValueError("set unified, or prefill and decode, not both kinds")
        if self.unified is None and (self.prefill is None or self.decode is None):
            raise ValueError("set unified, or both prefill and decode")
        return self

    def by_name(self) -> dict[str, Pool]:
        """Return the pools that are set, by name, prefill before decode."""
        named = {"unified": self.unified, "prefill": self.prefill, "decode": self.decode}
        return {name: pool for name, pool in named.items() if pool is not None}


class RolloutSpec(Wire):
    """How the pods of a new revision replace the old ones."""

    strategy: Literal["RollingUpdate", "Recreate"] = "RollingUpdate"
    """Side by side, or all old pods first."""
    max_surge: IntOrPercent = 1
    """Pods of a pool above its replicas while a revision rolls out, where GPUs are free."""
    max_unavailable: IntOrPercent = 1
    """Ready pods of a pool that may be missing while old ones give way for want of free GPUs."""
    progress_deadline: Seconds = 3600.0
    """Time without any progress after which the rollout counts as stalled."""


__all__ = [
    "NodeClassPin",
    "NodeRequirement",
    "PodTemplate",
    "Pool",
    "PoolResources",
    "Pools",
    "RolloutSpec",
    "Text",
    "Toleration",
]
