"""What one pass needs of the world, as protocols; the shell has the real ones, tests their twins.

Objects are plain documents as the API server sends them (`dict`). Reads that a pass makes at every
turn come from the shell's caches and cost no call; what is rare is asked for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tidegate.core.admission import Rules
from tidegate.core.analysis.evidence import Evidence, Metric
from tidegate.core.nodes import GpuPod, NodeClassSetting
from tidegate.core.overload.decision import Tick
from tidegate.core.overload.load import Load
from tidegate.core.overload.signal import Signals, Unknown
from tidegate.facts.cache_config import CacheConfig

Document = dict[str, Any]


@dataclass(frozen=True, order=True)
class Ref:
    """Names one LLMDeployment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class WriteFailed(Exception):
    """A write was refused or got no answer; `status` is the HTTP status, None without an answer."""

    def __init__(self, status: int | None, message: str, kind: str = "", name: str = "") -> None:
        self.status = status
        self.message = message
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} {name}: {status or 'no answer'}: {message}")

    @property
    def has_moved(self) -> bool:
        """Say whether the object is gone, or not the one that was seen: look again."""
        return self.status in (404, 409)


class ReadFailed(Exception):
    """A read got no useful answer; the pass is tried again."""


class Cluster(Protocol):
    """The API server, as one pass sees it."""

    def refs(self) -> Sequence[Ref]:
        """Return every LLMDeployment in the cache."""

    def deployment(self, ref: Ref) -> Document | None:
        """Return the LLMDeployment from the cache, or None when it is gone."""

    def nodes(self) -> Sequence[Document]:
        """Return every Node from the cache."""

    def gpu_pods(self) -> Sequence[GpuPod]:
        """Return every pod of the cluster that has not ended and asks for nvidia.com/gpu."""

    def owned(self, kind: str, ref: Ref) -> Sequence[Document]:
        """Return the cached objects of a kind that carry the deployment's label.

        Kinds: Pod, and those of `gather.OWNED_KINDS`.
        """

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        """Ask the API server for one object, the newest there is; None when there is none.

        Kinds: LLMDeployment, ConfigMap, Secret, PersistentVolumeClaim, and those of `owned`.
        """

    async def apply(self, document: Document) -> Document:
        """Server-side apply, forced, with Tidegate's field manager; return what is stored.

        With `metadata.uid` and `resourceVersion` in it, the document is only applied to the very
        object that was seen: else WriteFailed(409).
        """

    async def scale(self, document: Document, replicas: int) -> Document:
        """Set `spec.replicas` of a Deployment and nothing else of it; return what is stored.

        WriteFailed(409) when its uid or resourceVersion is no longer the document's.
        """

    async def delete(self, document: Document) -> None:
        """Delete an object if its uid and resourceVersion are still the document's.

        One that is gone is no error; one that changed is WriteFailed(409).
        """

    async def set_status(self, ref: Ref, resource_version: str, status: Document) -> Document:
        """Replace the status through the subresource; WriteFailed(409) when the object moved."""

    async def pod_log(self, namespace: str, pod: str, *, previous: bool, tail_lines: int) -> str:
        """Return the last lines of the engine container's log; empty when there is none."""

    async def start_of_log(self, namespace: str, pod: str, limit_bytes: int) -> str:
        """Return the first bytes of the running engine container's log; empty when there is none.

        Where the log was cut by rotation, the start is of what is left of it.
        """

    async def emit(
        self, ref: Ref, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Write an Event about the deployment; a failure to write it is not an error."""


class Engines(Protocol):
    """The engines themselves, asked over the pods' network."""

    async def cache_config(self, pod: Document) -> CacheConfig:
        """Return what a pod's engine says of its KV cache, within seconds.

        Raises:
            ReadFailed: It cannot be reached, or does not tell.
        """


@dataclass(frozen=True)
class Configured:
    """What a gate says of its configuration.

    `generation` is of the resource that the one in use was made from, None without any. `error` is
    why the newest one is refused, empty where it is in use.
    """

    generation: int | None
    error: str = ""


@dataclass(frozen=True)
class Tried:
    """How a request went that a gate sent through a prefill and a decode pod; empty: unknown."""

    is_ok: bool
    prefill: str = ""
    decode: str = ""
    error: str = ""


class Gates(Protocol):
    """The gates themselves, asked on their admin port over the pods' network."""

    async def configuration(self, pod: Document) -> Configured:
        """Return what a gate says of its configuration, within seconds.

        Raises:
            ReadFailed: It cannot be reached, or does not tell.
        """

    async def try_pair(self, pod: Document, revision: str) -> Tried:
        """Have a gate send a small request through a prefill and a decode pod of a revision.

        Raises:
            ReadFailed: The gate cannot be reached, or does not tell.
        """


class Metrics(Protocol):
    """Prometheus, as the slow loop sees it: one question for each signal, for all deployments."""

    async def signals(self, now: float) -> Mapping[Ref, Signals]:
        """Return what is known of every deployment's pools, within seconds; it never raises.

        Of a deployment that is not in it nothing was told: `why_silent` says why.
        """

    def has_sample(self, ref: Ref, pod: str) -> bool:
        """Say whether the last question told of the KV cache of a deployment's pod."""

    def loads(self) -> Mapping[Ref, Load]:
        """Return what deployments' gates carry, as the last question told it."""

    def why_silent(self) -> Unknown | None:
        """Return why the last question had no useful answer at all; None where it had one."""


@dataclass(frozen=True)
class Sides:
    """What is known of a canary and of what it is compared with: intervals that are aligned."""

    canary: tuple[Evidence, ...] = ()
    baseline: tuple[Evidence, ...] = ()


class Evidences(Protocol):
    """Prometheus, as the judge of a canary sees it."""

    @property
    def metrics(self) -> frozenset[Metric]:
        """The metrics that it can tell of; no other one is judged."""

    async def of(self, ref: Ref, canary: str, baseline: str, since: float, now: float) -> Sides:
        """Return the evidence on two revisions of a deployment since a time, within seconds.

        Raises:
            ReadFailed: Prometheus cannot be reached, or its answer cannot be read.
        """


class Clock(Protocol):
    """The time, as a parameter."""

    def now(self) -> float:
        """Return seconds since 1970, UTC: for what is stored and shown."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow: for how long something lasts in this process."""


@dataclass(frozen=True)
class Settings:
    """What the operator's own configuration says about a pass."""

    node_classes: tuple[NodeClassSetting, ...] = ()
    scraper_namespace_labels: Mapping[str, str] | None = None
    scraper_pod_labels: Mapping[str, str] | None = None
    class_grace_seconds: float = 60.0
    operator_namespace: str = "tidegate-system"
    operator_pod_labels: Mapping[str, str] | None = None
    drift_limit_percent: float = 5.0
    admission: Rules = field(default_factory=Rules)
    gate_image: str = "tidegate"
    tick: Tick = field(default_factory=Tick)
