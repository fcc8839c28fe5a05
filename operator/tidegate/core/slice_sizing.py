"""The size of one pool on one class of node: from the spec to the engine's flags and a budget."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.quantities import format_bytes
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
from tidegate.facts.gpus import Gpu

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


@dataclass(frozen=True, eq=False)
class PoolSizer:
    """Sizes one pool on classes of node; what depends on the card alone is worked out once.

    `config_digest` is of the model's config.json.
    """

    spec: LLMDeploymentSpec
    name: str
    model: ModelShape
    engine: Engine
    config_digest: str
    _estimates: dict[Gpu, "_Estimate | Refused"] = field(default_factory=dict)

    def size(
        self,
        node_class: NodeClass,
        nodes: Sequence[Node],
        known: Callable[[str], Measurement | None],
    ) -> Sized:
        """Size the pool on a class of node, of which `nodes` are the ones it can land on.

        `known` returns what was measured of a configuration; it takes the place of the estimates.

        Raises:
            Refused: It cannot run there; a field of the refusal is the pool's own.
        """
        class_limits.require(self.spec, self.name, self.model, node_class, nodes)
        estimate = self._estimate(node_class)
        basis = known(estimate.configuration)
        if basis is None:
            return Sized(estimate.engine, estimate.sizing, estimate.configuration, None)
        with self._named():
            config, result = self._with(node_class.gpu, basis.terms)
        result = _as_it_ran(self.spec, node_class.gpu, config, result, basis)
        return Sized(config, result, estimate.configuration, basis)

    def _estimate(self, node_class: NodeClass) -> "_Estimate":
        gpu = node_class.gpu
        if gpu not in self._estimates:
            try:
                with self._named():
                    config, result = self._with(gpu)
            except Refused as refusal:
                self._estimates[gpu] = refusal
            else:
                self._estimates[gpu] = _Estimate(
                    config,
                    result,
                    configuration.digest(
                        self.spec, self.name, self.config_digest, config, node_class
                    ),
                )
        found = self._estimates[gpu]
        if isinstance(found, Refused):
            raise Refused(found.reason, found.message, found.field) from found
        return found

    def _with(self, gpu: Gpu, terms: MeasuredTerms | None = None) -> tuple[EngineConfig, Sizing]:
        spec, pool = self.spec, self.spec.pools.by_name()[self.name]
        config = resolve.engine_config(spec, pool, self.model, gpu, self.engine)
        workload = resolve.workload_of(spec, config.max_model_len)
        result = sizing.size(
            self.model,
            config,
            gpu,
            safety_line=_line(spec, gpu),
            kv_cache_bytes=spec.budget.kv_cache,
            activations_bytes=spec.budget.activations,
            weights_bytes=spec.model.weights.bytes,
            workload=workload,
            terms=terms,
        )
        result = _limited(gpu, result)
        shared = spec.workload.shared_prefix_tokens if spec.workload else None
        result = prefix.counted_once(result, config, workload, shared)
        return resolve.with_concurrency(config, spec.engine, result), result

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Tell a refusal of the sizing in the user's terms: it knows no pool and no catalogue."""
        try:
            yield
        except Refused as refusal:
            raise _of_pool(_of_copy(refusal, self.spec), self.name) from refusal.__cause__


@dataclass(frozen=True)
class _Estimate:
    """A pool on a card before anything was measured."""

    engine: EngineConfig
    sizing: Sizing
    configuration: str


def _line(spec: LLMDeploymentSpec, gpu: Gpu) -> float:
    """Return the safety line less what others hold of the card."""
    return max(0.0, spec.budget.safety_line - gpu.taken_bytes / gpu.cuda_total.bytes)


def _limited(gpu: Gpu, sized: Sizing) -> Sizing:
    """Say how a card with others on it is planned, and keep the engine to its part by MPS.

    CUDA may show a client the whole card or its part. So KV is given its bytes, and the share that
    the engine asks to find free is one that either has.
    """
    if gpu.taken_bytes:
        sentence = f"other processes hold {format_bytes(gpu.taken_bytes)} of each GPU, as declared"
        return replace(sized, because=(*sized.because, sentence))
    if not gpu.is_mps:
        return sized
    utilization = math.floor(sized.gpu_memory_utilization / gpu.sharers * 1e4) / 1e4
    sentence = (
        f"the card is shared by MPS among {gpu.sharers} pods, each of which is limited to "
        f"{format_bytes(gpu.cuda_total.bytes)}: KV is given its bytes (--kv-cache-memory-bytes), "
        f"and the engine asks for {utilization:g} of what CUDA shows it, be that the whole card"
    )
    return replace(
        sized,
        gpu_memory_utilization=utilization,
        kv_cache_memory_bytes=sized.budget.kv_cache.bytes,
        because=(*sized.because, sentence),
    )


def _as_it_ran(
    spec: LLMDeploymentSpec,
    gpu: Gpu,
    config: EngineConfig,
    sized: Sizing,
    basis: Measurement,
) -> Sizing:
    """Give KV its bytes where this very engine was measured; it then starts without profiling.

    Not on a GPU that others use as well: what is free there is not what was free before.
    """
    limits = (config.max_model_len, config.max_num_seqs)
    ran_so = limits == (basis.max_model_len, basis.max_num_seqs)
    has_ceiling = spec.budget.kv_cache is not None
    if not sized.is_measured or not ran_so or has_ceiling or gpu.is_used_by_others:
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
