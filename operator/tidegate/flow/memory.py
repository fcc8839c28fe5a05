"""What a process remembers between passes. Losing all of it costs a few calls and no mistake."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidegate.api.llmdeployment_status import LLMDeploymentStatus
from tidegate.api.rollout_history import RolloutLook
from tidegate.core.canary.ends import Ends
from tidegate.core.canary.state import State
from tidegate.core.causes import Cause
from tidegate.core.checks import Verdict
from tidegate.core.measure.basis import SliceKey
from tidegate.core.measure.learn import Reading
from tidegate.core.measure.store import Store
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan
from tidegate.flow.overload_memory import OverloadMemory
from tidegate.flow.ports import Configured, Document, Ref

Key = tuple[str, str, str]
"""Kind, namespace and name."""
Inputs = tuple[object, ...]
"""All that a pure function is given: equal ones lead to an equal result."""


@dataclass
class SeenNode:
    """A node as it was while its class was known; `missing_since` is monotonic."""

    node: Node
    missing_since: float | None = None


@dataclass
class FetchedText:
    """A ConfigMap's value and when it was fetched (monotonic); None when it was not there."""

    text: str | None
    at: float

    def is_fresh(self, now: float, age_seconds: float) -> bool:
        """Say whether it need not be fetched again; one that was not there is looked for always."""
        return self.text is not None and now - self.at < age_seconds


@dataclass(frozen=True)
class Planned:
    """A plan, what its checks say, and all that both depend on."""

    inputs: Inputs
    plan: Plan
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Start:
    """One start of an engine: the pod's uid and how often its container was started before."""

    uid: str
    restarts: int


@dataclass
class Heard:
    """What a slice's engine told at one start; without a reading it is asked again after a while.

    `is_kept` says that the namespace's ConfigMap has it. Times are monotonic.
    """

    start: Start
    reading: Reading | None = None
    attempts: int = 0
    ask_at: float = 0.0
    is_kept: bool = False
    keep_at: float = 0.0


@dataclass
class HeardGate:
    """What a gate told at one start about one version of its configuration; asked again while new.

    `behind_since` is since when it has been known to serve another generation than the one that it
    was given; None where it is not. Times are monotonic.
    """

    start: Start
    version: str
    since: float
    told: Configured | None = None
    silence: str = ""
    ask_at: float = 0.0
    behind_since: float | None = None


@dataclass
class TriedPair:
    """How requests through a revision's pair went, from which slices to which."""

    slices: frozenset[tuple[str, str]]
    is_ok: bool = False
    failures: int = 0
    error: str = ""
    try_at: float = 0.0


@dataclass(frozen=True)
class Kept:
    """A namespace's measurements as the API server last told them; no `document`: none there."""

    store: Store
    document: Document | None = None
    is_foreign: bool = False


@dataclass(frozen=True)
class Told:
    """A status whose write left the deployment at the version that it had: it was not stored."""

    version: str
    status: LLMDeploymentStatus
    document: Document


@dataclass(frozen=True)
class KeptRollout:
    """The state of a rollout as this process wrote it, and the version that the write led to."""

    version: int | None
    state: State


@dataclass
class UnkeptLooks:
    """Looks at a canary that are to be written, and when (monotonic).

    `document` is the ConfigMap as this process wrote it last. `has_past` says that there were looks
    before these. Nothing is tried before `refused_until`.
    """

    looks: tuple[RolloutLook, ...] = ()
    document: Document | None = None
    write_at: float = 0.0
    refused_until: float = 0.0
    has_past: bool = False


@dataclass
class Memory:
    """One for each process, shared by the passes of all deployments.

    `read_nodes` has each Node's document and what it reads as, `plans` the last plan of each
    deployment; `unchanging` has all that rendering and comparing were given when they last found
    nothing to write. `waiting` names the slices whose newer rendering waited when a pass last
    rendered. `heard` is what engines told, by slice, and `kept` what is stored of it, by namespace;
    `consulted` has the identity for which that was last asked for. `rollouts` is what was written
    of rollouts, which caches may not show yet; `ends` has the engines of a rollout that ended,
    `looks` what was seen of it and is not written yet, `kv_drifts` by revision how many percent the
    KV was off its plan. `logs_at` is when logs may be fetched again after one could not be
    (monotonic), `told` what was told in vain, `overload` what the slow loop came to.
    """

    nodes: dict[str, SeenNode] = field(default_factory=dict)
    read_nodes: dict[str, tuple[Document, Node]] = field(default_factory=dict)
    begun_at: float | None = None
    written: dict[Ref, dict[Key, int]] = field(default_factory=dict)
    texts: dict[Ref, dict[tuple[str, str], FetchedText]] = field(default_factory=dict)
    causes: dict[Ref, dict[str, Cause | None]] = field(default_factory=dict)
    plans: dict[Ref, Planned] = field(default_factory=dict)
    unchanging: dict[Ref, Inputs] = field(default_factory=dict)
    waiting: dict[Ref, tuple[str, ...]] = field(default_factory=dict)
    heard: dict[Ref, dict[SliceKey, Heard]] = field(default_factory=dict)
    gates: dict[Ref, dict[str, HeardGate]] = field(default_factory=dict)
    pairs: dict[Ref, dict[str, TriedPair]] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    consulted: dict[Ref, tuple[str, int]] = field(default_factory=dict)
    rollouts: dict[Ref, KeptRollout] = field(default_factory=dict)
    ends: dict[Ref, Ends] = field(default_factory=dict)
    looks: dict[Ref, UnkeptLooks] = field(default_factory=dict)
    kv_drifts: dict[Ref, dict[str, float]] = field(default_factory=dict)
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    logs_at: dict[Ref, float] = field(default_factory=dict)
    told: dict[Ref, Told] = field(default_factory=dict)
    overload: OverloadMemory = field(default_factory=OverloadMemory)

    def forget(self, ref: Ref) -> None:
        """Drop what belongs to a deployment that is gone, or to a namespace without any left."""
        for known in (
            self.written,
            self.texts,
            self.causes,
            self.plans,
            self.unchanging,
            self.waiting,
            self.heard,
            self.gates,
            self.pairs,
            self.consulted,
            self.rollouts,
            self.ends,
            self.looks,
            self.kv_drifts,
            self.logs_at,
            self.told,
        ):
            known.pop(ref, None)
        self.overload.forget(ref)
        if all(other.namespace != ref.namespace for other in self.plans):
            self.kept.pop(ref.namespace, None)
            self.locks.pop(ref.namespace, None)

    def lock(self, namespace: str) -> asyncio.Lock:
        """Return what a pass holds while it reads and writes a namespace's measurements."""
        return self.locks.setdefault(namespace, asyncio.Lock())

    def wrote(self, ref: Ref, stored: Document) -> None:
        """Remember what a write led to, so that no older copy of it is acted upon."""
        version = version_of(stored)
        if version is not None:
            self.written.setdefault(ref, {})[key_of(stored)] = version

    def behind(self, ref: Ref, cached: Iterable[Document]) -> list[Key]:
        """Return the objects whose cached copy is older than our own last write of them.

        Those that the caches have caught up with are dropped from memory.
        """
        written = self.written.get(ref)
        if not written:
            return []
        there = {key_of(document): version_of(document) for document in cached}
        for key, version in list(written.items()):
            if (there.get(key) or -1) >= version:
                del written[key]
        return list(written)


def key_of(document: Document) -> Key:
    """Return what tells an object from all others that are there."""
    metadata = document["metadata"]
    return document["kind"], metadata["namespace"], metadata["name"]


def version_of(document: Document) -> int | None:
    """Return the resourceVersion as the number that Kubernetes lets clients compare."""
    text = document["metadata"].get("resourceVersion", "")
    return int(text) if text.isdigit() else None
