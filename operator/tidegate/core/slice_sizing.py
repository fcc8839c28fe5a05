"""The size of one pool on one class of node: from the spec to the engine's flags and a budget."""

from collections.abc import Sequence

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import Pool
from tidegate.core import class_limits, prefix, resolve
from tidegate.core.budget import sizing
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.core.budget.sizing import Sizing
from tidegate.core.nodes import Node, NodeClass
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

_UNNAMED_FIELD = "spec.pools.tensorParallel"


def size(
    spec: LLMDeploymentSpec,
    name: str,
    model: ModelShape,
    engine: Engine,
    node_class: NodeClass,
    nodes: Sequence[Node],
) -> tuple[EngineConfig, Sizing]:
    """Size the pool `name` on a class of node, of which `nodes` are the ones it can land on.

    Raises:
        Refused: It cannot run there; a field of the refusal is the pool's own.
    """
    pool = spec.pools.by_name()[name]
    class_limits.require(spec, name, model, node_class, nodes)
    try:
        return _size(spec, pool, model, engine, node_class)
    except Refused as refusal:
        raise _of_pool(refusal, name) from refusal.__cause__


def _size(
    spec: LLMDeploymentSpec, pool: Pool, model: ModelShape, engine: Engine, node_class: NodeClass
) -> tuple[EngineConfig, Sizing]:
    config = resolve.engine_config(spec, pool, model, node_class.gpu, engine)
    workload = resolve.workload_of(spec, config)
    result = sizing.size(
        model,
        config,
        node_class.gpu,
        safety_line=spec.budget.safety_line,
        kv_cache_bytes=spec.budget.kv_cache,
        activations_bytes=spec.budget.activations,
        weights_bytes=spec.model.weights.bytes,
        workload=workload,
    )
    shared = spec.workload.shared_prefix_tokens if spec.workload else None
    result = prefix.counted_once(result, config, workload, shared)
    return resolve.with_concurrency(config, spec.engine, result), result


def _of_pool(refusal: Refused, name: str) -> Refused:
    """Put the pool's name into the field of a refusal by the sizing, which knows no names."""
    if refusal.field != _UNNAMED_FIELD:
        return refusal
    return Refused(refusal.reason, refusal.message, f"spec.pools.{name}.tensorParallel")
