"""The plan: which slices a deployment needs, with what numbers, and why.

A slice is (pool, revision, node class): the unit that is sized, rendered and scaled. The plan is
made anew at every pass from the spec, the model's config and the nodes; only the division of
replicas over classes remembers what was there before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import Pool
from tidegate.core import landing, pairs, placement, resolve, revision, slice_sizing
from tidegate.core.budget import shape as shapes
from tidegate.core.budget import transfer
from tidegate.core.budget.shape import ModelShape
from tidegate.core.measure import configuration
from tidegate.core.measure.basis import Basis
from tidegate.core.measure.measurement import Measurement
from tidegate.core.nodes import Node
from tidegate.core.slice_plan import SlicePlan
from tidegate.core.slice_sizing import Sized
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

__all__ = ["Exclusion", "Mode", "Plan", "SlicePlan", "make"]

Mode = Literal["Unified", "PrefillDecode"]


@dataclass(frozen=True)
class Exclusion:
    """A class of node that a pool matches but cannot use."""

    pool: str
    node_class: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.pool} on {self.node_class}: {self.reason}: {self.message}"


@dataclass(frozen=True)
class Plan:
    """What a deployment needs: its slices, by pool and then by class."""

    mode: Mode
    revision: str
    engine_version: str
    slices: tuple[SlicePlan, ...]
    exclusions: tuple[Exclusion, ...]
    because: tuple[str, ...]

    def of_pool(self, pool: str) -> tuple[SlicePlan, ...]:
        """Return the slices of one pool."""
        return tuple(entry for entry in self.slices if entry.pool == pool)


def make(
    spec: LLMDeploymentSpec,
    model_config: Mapping[str, Any],
    nodes: Sequence[Node],
    free_gpus: Mapping[str, int],
    previous: Mapping[tuple[str, str], int],
    basis: Basis | None = None,
) -> Plan:
    """Make the plan of a deployment.

    Args:
        spec: What the user asks for.
        model_config: The model's config.json.
        nodes: Every node of the cluster.
        free_gpus: By node: GPUs that no pod of another deployment holds (`nodes.free_gpus`).
        previous: Replicas by (pool, node class) as they are divided now.
        basis: What was measured; estimates alone when absent.

    Raises:
        Refused: Some pool has no class of node on which it can run; the message has the numbers
            of each class and what would work.
    """
    engine = resolve.engine_of(spec.engine)
    model = shapes.read(model_config)
    slices: list[SlicePlan] = []
    exclusions: list[Exclusion] = []
    measured = _Measured(
        basis or Basis(),
        revision.of(spec, model_config),
        configuration.of_config(model_config),
        spec.engine.image,
    )
    for name, pool in spec.pools.by_name().items():
        planned, excluded, free_gpus = _plan_pool(
            spec, name, pool, model, engine, nodes, free_gpus, previous, measured
        )
        slices += planned
        exclusions += excluded
    pairs.check(spec, slices)
    return Plan(
        mode="Unified" if spec.pools.unified else "PrefillDecode",
        revision=measured.revision,
        engine_version=engine.version,
        slices=tuple(slices),
        exclusions=tuple(exclusions),
        because=pairs.because(spec, model, slices),
    )


@dataclass(frozen=True)
class _Measured:
    """What was measured, for one revision of one model under one image."""

    basis: Basis
    revision: str
    config_digest: str
    image: str

    def known(self, pool: str, class_name: str) -> Callable[[str], Measurement | None]:
        """Return what finds a slice's measurement by its configuration."""
        return lambda found: self.basis.of(pool, self.revision, class_name, found, self.image)


def _plan_pool(
    spec: LLMDeploymentSpec,
    name: str,
    pool: Pool,
    model: ModelShape,
    engine: Engine,
    nodes: Sequence[Node],
    free_gpus: Mapping[str, int],
    previous: Mapping[tuple[str, str], int],
    measured: _Measured,
) -> tuple[list[SlicePlan], list[Exclusion], Mapping[str, int]]:
    """Plan one pool; return also what stays free for the pools after it."""
    found = landing.find(name, pool, nodes)
    sizer = slice_sizing.PoolSizer(spec, name, model, engine, measured.config_digest)
    sized: dict[str, Sized] = {}
    refusals: dict[str, Refused] = {}
    for class_name in found.by_class:
        try:
            sized[class_name] = sizer.size(
                found.class_of(class_name),
                found.by_class[class_name],
                measured.known(name, class_name),
            )
        except Refused as refusal:
            refusals[class_name] = refusal
    if not sized:
        raise _nowhere(name, refusals)
    gpus = pool.tensor_parallel * pool.pipeline_parallel
    shares = _divide(name, pool, found, sized, free_gpus, previous, gpus)
    speed = cache(partial(transfer.prefill_tokens_per_second, model))  # classes share cards
    slices = []
    for class_name, result in sized.items():
        members = found.by_class[class_name]
        free_gpus = placement.take(free_gpus, members, gpus, shares[class_name])
        slices.append(
            SlicePlan(
                pool=name,
                node_class=found.class_of(class_name),
                nodes=len(members),
                replicas=shares[class_name],
                gpus=gpus,
                engine=result.engine,
                sizing=result.sizing,
                because=result.sizing.because,
                configuration=result.configuration,
                basis=result.basis,
                prefill_tokens_per_second=speed(
                    found.class_of(class_name).gpu,
                    result.engine.tensor_parallel,
                    min(transfer.USUAL_PROMPT_TOKENS, result.engine.max_model_len),
                ),
            )
        )
    excluded = [
        Exclusion(name, class_name, refusal.reason, refusal.message)
        for class_name, refusal in refusals.items()
    ]
    return slices, excluded, free_gpus


def _divide(
    name: str,
    pool: Pool,
    found: landing.Landing,
    sized: Mapping[str, Any],
    free_gpus: Mapping[str, int],
    previous: Mapping[tuple[str, str], int],
    gpus: int,
) -> dict[str, int]:
    pins = {pin.product: pin.replicas for pin in pool.node_classes}
    rooms = [
        placement.ClassRoom(
            name=class_name,
            room=placement.rooms_on(found.by_class[class_name], free_gpus, gpus),
            pinned=pins.get(found.class_of(class_name).product),
        )
        for class_name in sized
    ]
    had = {
        class_name: count
        for (pool_name, class_name), count in previous.items()
        if pool_name == name
    }
    return placement.divide(pool.replicas, rooms, had)


def _nowhere(name: str, refusals: Mapping[str, Refused]) -> Refused:
    """One refusal for a pool that fits no class: the classes' own reason where they agree."""
    first = next(iter(refusals.values()))
    if len(refusals) == 1:
        return first
    detail = "; ".join(f"{class_name}: {r.message}" for class_name, r in refusals.items())
    return Refused(first.reason, f"the pool {name} fits no class of node: {detail}", first.field)
