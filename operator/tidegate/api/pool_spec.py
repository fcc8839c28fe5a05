"""`spec.pools`: how many pods, and on which nodes."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tidegate.api import text
from tidegate.api.rules import rule, rules
from tidegate.api.unique import unique
from tidegate.api.wire import (
    DNSName,
    LabelKey,
    LabelValue,
    QuantityText,
    Text,
    Wire,
    parse_quantity,
)

Replicas = Annotated[int, Field(ge=0, le=1000)]

_EXISTS_TAKES_NO_VALUE = "operator Exists takes no value; remove value, or use operator Equal"
_KEY_NEEDED = "operator Equal needs a key; set key, or use operator Exists for every taint"
_SECONDS_NEED_NO_EXECUTE = "tolerationSeconds needs effect NoExecute"
_IN_NEEDS_VALUES = "operators In and NotIn need at least one value in values"
_EXISTS_TAKES_NO_VALUES = "operators Exists and DoesNotExist take no values; remove values"
_ONE_NUMBER = "operators Gt and Lt need exactly one value, a whole number in quotes"
_ONE_MODE = "set unified, or both prefill and decode"
_PINNED_TOO_MANY = "nodeClasses ask for more pods than replicas; raise replicas or lower theirs"
_PINNED_TOO_FEW = (
    "every entry of nodeClasses has replicas, so they must add up to the pool's replicas; "
    "leave one of them out to give it the rest"
)


class Toleration(Wire):
    """A taint that the pool's pods accept; Kubernetes' own type."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.operator != 'Exists' || !has(self.value)", _EXISTS_TAKES_NO_VALUE),
            rule("self.operator == 'Exists' || has(self.key)", _KEY_NEEDED),
            rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                _SECONDS_NEED_NO_EXECUTE,
            ),
        )
    )

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

    @model_validator(mode="after")
    def _consistent(self) -> "Toleration":
        if self.operator == "Exists" and self.value is not None:
            raise ValueError(_EXISTS_TAKES_NO_VALUE)
        if self.operator == "Equal" and self.key is None:
            raise ValueError(_KEY_NEEDED)
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError(_SECONDS_NEED_NO_EXECUTE)
        return self


class NodeRequirement(Wire):
    """One condition on a node's label; Kubernetes' own type."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("!(self.operator in ['In', 'NotIn']) || size(self.values) > 0", _IN_NEEDS_VALUES),
            rule(
                "!(self.operator in ['Exists', 'DoesNotExist']) || size(self.values) == 0",
                _EXISTS_TAKES_NO_VALUES,
            ),
            rule(
                "!(self.operator in ['Gt', 'Lt']) || "
                "(size(self.values) == 1 && self.values[0].matches('^[0-9]{1,18}$'))",
                _ONE_NUMBER,
            ),
        )
    )

    key: LabelKey
    """Label of the node."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the values are compared."""
    values: Annotated[list[LabelValue], Field(max_length=64)] = []
    """Values to compare with."""

    @model_validator(mode="after")
    def _consistent(self) -> "NodeRequirement":
        if self.operator in ("In", "NotIn") and not self.values:
            raise ValueError(_IN_NEEDS_VALUES)
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            raise ValueError(_EXISTS_TAKES_NO_VALUES)
        if self.operator in ("Gt", "Lt"):
            numbers = [v for v in self.values if v.isdecimal() and v.isascii() and len(v) <= 18]
            if len(self.values) != 1 or not numbers:
                raise ValueError(_ONE_NUMBER)
        return self


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

    @model_validator(mode="after")
    def _requests_within_limits(self) -> "PoolResources":
        for name, limit in self.limits.items():
            request = self.requests.get(name)
            if request is not None and parse_quantity(request) > parse_quantity(limit):
                raise ValueError(
                    f"requests.{name} {request} is more than limits.{name} {limit}; "
                    "lower the request or raise the limit"
                )
        return self


class NodeClassPin(Wire):
    """A class of GPU node that the pool is pinned to."""

    product: Annotated[str, Field(max_length=63, pattern=text.PRODUCT.pattern)]
    """GPU product as the node's label tells it."""
    replicas: Replicas | None = None
    """Pods on this class; divided by free GPUs when absent."""


class PodTemplate(Wire):
    """What may be added to the pool's pods."""

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Further labels; those of Tidegate and app.kubernetes.io are refused."""
    annotations: Annotated[
        dict[LabelKey, Annotated[str, Field(max_length=4096, pattern=text.PROSE.pattern)]],
        Field(max_length=32),
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

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.nodeClasses.map(c, has(c.replicas) ? c.replicas : 0).sum() <= self.replicas",
                _PINNED_TOO_MANY,
            ),
            rule(
                "size(self.nodeClasses) == 0 || self.nodeClasses.exists(c, !has(c.replicas)) || "
                "self.nodeClasses.map(c, c.replicas).sum() >= self.replicas",
                _PINNED_TOO_FEW,
            ),
        )
    )

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
    node_classes: Annotated[
        list[NodeClassPin],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["product"],
            },
        ),
        unique("product"),
    ] = []
    """Classes of GPU node to use; every class that fits when empty."""
    resources: PoolResources = PoolResources()
    """CPU and memory of each pod."""
    pod_template: PodTemplate = PodTemplate()
    """What is added to the pods."""

    @model_validator(mode="after")
    def _pins_add_up(self) -> "Pool":
        pinned = [pin.replicas for pin in self.node_classes if pin.replicas is not None]
        if sum(pinned) > self.replicas:
            raise ValueError(_PINNED_TOO_MANY)
        if pinned and len(pinned) == len(self.node_classes) and sum(pinned) < self.replicas:
            raise ValueError(_PINNED_TOO_FEW)
        return self


class Pools(Wire):
    """`unified`, or both `prefill` and `decode`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.prefill) == has(self.decode) && has(self.unified) != has(self.prefill)",
                _ONE_MODE,
            )
        )
    )

    unified: Pool | None = None
    """Pods that do both phases."""
    prefill: Pool | None = None
    """Pods that read prompts."""
    decode: Pool | None = None
    """Pods that write answers."""

    @model_validator(mode="after")
    def _mode(self) -> "Pools":
        divided = (self.prefill is not None, self.decode is not None)
        if divided[0] != divided[1] or divided[0] == (self.unified is not None):
            raise ValueError(_ONE_MODE)
        return self

    def by_name(self) -> dict[str, Pool]:
        """Return the pools that are set, by name, prefill before decode."""
        named = {"unified": self.unified, "prefill": self.prefill, "decode": self.decode}
        return {name: pool for name, pool in named.items() if pool is not None}


__all__ = [
    "NodeClassPin",
    "NodeRequirement",
    "PodTemplate",
    "Pool",
    "PoolResources",
    "Pools",
    "Text",
    "Toleration",
]
