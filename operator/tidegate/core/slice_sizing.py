"""The size of one pool on one class of node: from the spec to the engine's flags and a budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import Pool
from tidegate.api.reasons import Reason
from tidegate.core import class_limits, prefix, resolve
from tidegate.core.budget import sizing
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.measured import MeasuredTerms
from tidegate.core.budget.shape import ModelShape
from tidegate.core.budget.sizing import Sizing
from tidegate.core.measure import configuration
from tidegate.core.measure.measurement import Measurement
from tidegate.core.nodes import Node, NodeClass
from tidegate.errors import Refused
from tidegate.facts import models
from tidegate.facts.engines import Engine

_UNNAMED_FIELD = "spec.pools.tensorParallel"


@dataclass(frozen=True)
class Sized:
    """A pool on a class of node: flags and budget, and what of it was measured.

    `configuration` and `basis` are as in a `SlicePlan`.
    """

    engine: EngineConfig
    sizing: Sizing
    configuration: str
    basis: Measurement | None


def size(
    spec: LLMDeploymentSpec,
    name: str,
    model: ModelShape,
    engine: Engine,
    node_class: NodeClass,
    nodes: Sequence[Node],
    config_digest: str,
    known: Callable[[str], Measurement | None],
) -> Sized:
    """Size the pool `name` on a class of node, of which `nodes` are the ones it can land on.

    `config_digest` is of the model's config.json. `known` returns what was measured of a
    configuration; it takes the place of the estimates.

    Raises:
        Refused: It cannot run there; a field of the refusal is the pool's own.
    """
    pool = spec.pools.by_name()[name]
    class_limits.require(spec, name, model, node_class, nodes)
    try:
        config, result = _size(spec, pool, model, engine, node_class)
        key = configuration.digest(spec, name, config_digest, config, node_class)
        basis = known(key)
        if basis is not None:
            config, result = _size(spec, pool, model, engine, node_class, basis.terms)
            result = _as_it_ran(spec, node_class, config, result, basis)
    except Refused as refusal:
        raise _of_pool(_of_copy(refusal, spec), name) from refusal.__cause__
    return Sized(config, result, key, basis)


def _size(
    spec: LLMDeploymentSpec,
    pool: Pool,
    model: ModelShape,
    engine: Engine,
    node_class: NodeClass,
    terms: MeasuredTerms | None = None,
) -> tuple[EngineConfig, Sizing]:
    config = resolve.engine_config(spec, pool, model, node_class.gpu, engine)
    workload = resolve.workload_of(spec, config.max_model_len)
    result = sizing.size(
        model,
        config,
        node_class.gpu,
        safety_line=spec.budget.safety_line,
        kv_cache_bytes=spec.budget.kv_cache,
        activations_bytes=spec.budget.activations,
        weights_bytes=spec.model.weights.bytes,
        workload=workload,
        terms=terms,
    )
    shared = spec.workload.shared_prefix_tokens if spec.workload else None
    result = prefix.counted_once(result, config, workload, shared)
    return resolve.with_concurrency(config, spec.engine, result), result


def _as_it_ran(
    spec: LLMDeploymentSpec,
    node_class: NodeClass,
    config: EngineConfig,
    sized: Sizing,
    basis: Measurement,
) -> Sizing:
    """Give KV its bytes where this very engine was measured; it then starts without profiling.

    Not on a GPU that is shared by time: what is free there is not what was free before.
    """
    limits = (config.max_model_len, config.max_num_seqs)
    ran_so = limits == (basis.max_model_len, basis.max_num_seqs)
    has_ceiling = spec.budget.kv_cache is not None
    if not sized.is_measured or not ran_so or has_ceiling or node_class.gpu.is_shared:
        return sized
    sentence = (
        "an engine of this very configuration was measured: it is given these bytes for KV "
        "(--kv-cache-memory-bytes) and does not profile again"
    )
    return replace(
        sized,
        kv_cache_memory_bytes=sized.budget.kv_cache.bytes,
        because=(*sized.because, sentence),
    )


def _of_copy(refusal: Refused, spec: LLMDeploymentSpec) -> Refused:
    """Blame the catalogue's copy of a config.json for a key that it lacks, not the user."""
    model = spec.model
    if refusal.reason != Reason.MODEL_CONFIG_INVALID or model.config or model.config_ref:
        return refusal
    known = models.find(model.id)
    if known is None or known.standing != "reduced":
        return refusal
    return Refused(
        refusal.reason,
        f"the catalogue's copy of {model.id} is reduced: {refusal.message}. Give the model's own "
        "config.json in spec.model.config, or the size of its checkpoint in "
        "spec.model.weights.bytes",
        "spec.model.config",
    )


def _of_pool(refusal: Refused, name: str) -> Refused:
    """Put the pool's name into the field of a refusal by the sizing, which knows no names."""
    if refusal.field != _UNNAMED_FIELD:
        return refusal
    return Refused(refusal.reason, refusal.message, f"spec.pools.{name}.tensorParallel")
