"""What checks look at: a spec and its plan, and what would come of another spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec, parse_spec
from tidegate.api.pool_spec import Pool
from tidegate.api.reasons import Reason
from tidegate.core import nodes as node_classes
from tidegate.core import plan as planning
from tidegate.core import resolve
from tidegate.core.budget import shape
from tidegate.core.budget.shape import ModelShape
from tidegate.core.checks.verdict import Change, Severity, Verdict
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan, SlicePlan
from tidegate.errors import Invalid, Refused
from tidegate.facts.engines import Engine
from tidegate.facts.gpus import Gpu

_MOST_SLICES_TRIED = 1000
"""What the search for changes may plan in all: in a cluster of very many classes it ends early."""


@dataclass(frozen=True, eq=False)
class World:
    """What a plan is made of besides the spec: the model's config.json and the nodes.

    `previous` are replicas by (pool, class), as the plan under check divides them. What was tried
    is remembered: the slices of a plan ask for the same.
    """

    model_config: Mapping[str, Any]
    nodes: Sequence[Node]
    previous: Mapping[tuple[str, str], int] = field(default_factory=dict)
    _tried: "dict[tuple[int, str, Any], tuple[LLMDeploymentSpec, Case | None]]" = field(
        default_factory=dict
    )

    @cached_property
    def model(self) -> ModelShape:
        """The model's shape."""
        return shape.read(self.model_config)

    def plan(self, spec: LLMDeploymentSpec) -> Plan:
        """Plan a spec as if no other deployment held GPUs.

        Raises:
            Refused: There is no plan.
        """
        free = node_classes.free_gpus(self.nodes, (), None, None)
        return planning.make(spec, self.model_config, self.nodes, free, self.previous)

    def plan_with(self, spec: LLMDeploymentSpec, path: str, value: Any) -> "Case | None":
        """Return what comes of another value in one field; None where that is refused.

        None, too, once so much was tried that the search has to end.
        """
        key = (id(spec), path, value)
        if key not in self._tried:
            if len(self._tried) * self._slices(spec) > _MOST_SLICES_TRIED:
                return None
            self._tried[key] = spec, self._try(spec, path, value)  # the spec keeps its id alive
        return self._tried[key][1]

    def _try(self, spec: LLMDeploymentSpec, path: str, value: Any) -> "Case | None":
        changed = with_field(spec, path, value)
        if changed is None:
            return None
        try:
            return Case(changed, self.plan(changed), self)
        except Refused:
            return None

    def _slices(self, spec: LLMDeploymentSpec) -> int:
        """Return how many slices a plan has at most."""
        return self._classes * len(spec.pools.by_name())

    @cached_property
    def _classes(self) -> int:
        return len(node_classes.classes(self.nodes))


@dataclass(frozen=True, eq=False)
class Case:
    """A spec with its plan."""

    spec: LLMDeploymentSpec
    plan: Plan
    world: World

    @cached_property
    def engine(self) -> Engine:
        """The facts of the engine's version."""
        return resolve.engine_of(self.spec.engine)

    def slices_of(self, pool: str) -> tuple["Slice", ...]:
        """Return one pool on each class that it uses."""
        return tuple(Slice(self, entry) for entry in self.plan.of_pool(pool))

    def slice(self, pool: str, node_class: str) -> "Slice | None":
        """Return one pool on one class; None where the plan does not have it."""
        found = (s for s in self.slices_of(pool) if s.entry.node_class.name == node_class)
        return next(found, None)


@dataclass(frozen=True, eq=False)
class Slice:
    """One pool on one class of node, with everything that a check may look at."""

    case: Case
    entry: SlicePlan

    @property
    def spec(self) -> LLMDeploymentSpec:
        """The whole spec."""
        return self.case.spec

    @property
    def pool(self) -> Pool:
        """What the spec says of the pool."""
        return self.spec.pools.by_name()[self.entry.pool]

    @property
    def path(self) -> str:
        """The path of the pool's own fields."""
        return f"spec.pools.{self.entry.pool}"

    @property
    def gpu(self) -> Gpu:
        """The card."""
        return self.entry.node_class.gpu

    @property
    def model(self) -> ModelShape:
        """The model's shape."""
        return self.case.world.model

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the class, the ones that the pool cannot land on too."""
        return tuple(
            node
            for node in self.case.world.nodes
            if node.node_class is not None and node.node_class.name == self.entry.node_class.name
        )

    def verdict(
        self,
        reason: Reason,
        severity: Severity,
        message: str,
        field_path: str,
        changes: tuple[Change, ...] = (),
    ) -> Verdict:
        """Return a verdict on this slice."""
        name = self.entry.node_class.name
        return Verdict(reason, severity, message, field_path, changes, self.entry.pool, name)

    def with_field(self, path: str, value: Any) -> "Slice | None":
        """Return the same slice under another value of one field; None where there is none."""
        changed = self.case.world.plan_with(self.spec, path, value)
        return changed.slice(self.entry.pool, self.entry.node_class.name) if changed else None


def with_field(spec: LLMDeploymentSpec, path: str, value: Any) -> LLMDeploymentSpec | None:
    """Return the spec with another value in one field, `spec.` and all; None where it is invalid.

    A value of None removes the field.
    """
    document = {"spec": spec.wire()}
    part: dict[str, Any] = document
    *steps, last = path.split(".")
    for step in steps:
        part = part.setdefault(step, {})
    if value is None:
        part.pop(last, None)
    else:
        part[last] = value
    try:
        return parse_spec(document)
    except Invalid:
        return None
