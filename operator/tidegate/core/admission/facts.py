"""What admission may know of the world: all of it from caches, and any of it may be unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.admission.rules import Rules
from tidegate.core.nodes import GpuPod, Node


@dataclass(frozen=True)
class Selector:
    """An object of the namespace that is not Tidegate's, and the labels by which it finds pods."""

    kind: str
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Facts:
    """The world of one review.

    Attributes:
        nodes: Every node; None where they are not known. Give the same tuple while none changed:
            what was worked out for it is used again.
        config_texts: Values of ConfigMaps in the resource's namespace, by name and key. A key that
            is not there is unknown; None says that it does not exist.
        model_config: A config.json to use whatever the resource says, None for none.
        gpu_pods: Every pod that holds GPUs, None where they are not known.
        others: The other LLMDeployments of the namespace.
        selectors: What else selects pods in the namespace, as far as it is known.
        pools_there: The pools of which this deployment has Deployments now, None where unknown.
        rules: The operator's settings.
        can_judge: Whether the operator has a Prometheus, without which a canary is no default.
        now: The time, in seconds since 1970; None where nothing is to depend on it.
    """

    nodes: tuple[Node, ...] | None = None
    config_texts: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    model_config: Mapping[str, Any] | None = None
    gpu_pods: Sequence[GpuPod] | None = None
    others: Sequence[Mapping[str, Any]] = ()
    selectors: Sequence[Selector] = ()
    pools_there: frozenset[str] | None = None
    rules: Rules = field(default_factory=Rules)
    can_judge: bool = False
    now: float | None = None
