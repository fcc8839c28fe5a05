"""From a card to a budget: what each line takes, what is left for KV, and what that holds."""

import math
from dataclasses import dataclass, replace

from tidegate.api.figures import Figure, exact, total
from tidegate.api.reasons import Reason
from tidegate.core.budget import (
    activations,
    bands,
    draft,
    explain,
    graphs,
    kv_layers,
    parallelism,
    pool,
    runtime,
    weights,
)
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.explain import gib
from tidegate.core.budget.pool import KVLayout, KVPool
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused
from tidegate.facts.gpus import Gpu


@dataclass(frozen=True)
class Workload:
    """The requests that are expected, in tokens."""

    prompt_tokens_p95: int
    output_tokens_p95: int


@dataclass(frozen=True)
class Budget:
    """The division of one GPU's memory: the lines below `total` add up to it exactly.

    `runtime` has what the engine finds beside its tensors and what lies outside of its sight;
    `reserve` what is left free: the rest above the safety line, and what no whole block fills.
    """

    total: Figure
    weights: Figure
    activations: Figure
    cuda_graphs: Figure
    runtime: Figure
    draft: Figure
    reserve: Figure
    kv_cache: Figure

    @property
    def lines(self) -> tuple[Figure, ...]:
        """The lines that make up the total."""
        return (
            self.weights,
            self.activations,
            self.cuda_graphs,
            self.runtime,
            self.draft,
            self.reserve,
            self.kv_cache,
        )


@dataclass(frozen=True)
class Sizing:
    """What one pod of this configuration holds on this class of GPU, and why.

    `gpu_memory_utilization` is to be rendered where `kv_cache_memory_bytes` is None; the latter
    is set where the user gave a ceiling, and is then exactly that.
    """

    budget: Budget
    pool: KVPool
    requests_at_max_model_len: int
    requests_at_p95: int | None
    because: tuple[str, ...]
    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None


@dataclass(frozen=True)
class _Division:
    """The budget before KV: what the engine may use, and what it needs beside KV."""

    requested_bytes: int
    utilization: float
    weights: Figure
    activations: Figure
    cuda_graphs: Figure
    draft: Figure
    inside: Figure
    outside: Figure
    graphs_are_counted: bool

    @property
    def fixed(self) -> Figure:
        """What the engine subtracts from what it may use before the rest becomes KV."""
        counted = [self.weights, self.activations, self.draft, self.inside]
        return total(counted + ([self.cuda_graphs] if self.graphs_are_counted else []))

    @property
    def left_bytes(self) -> int:
        """What is left for KV; negative where the rest alone does not fit."""
        return self.requested_bytes - self.fixed.bytes


def size(
    shape: ModelShape,
    engine: EngineConfig,
    gpu: Gpu,
    *,
    safety_line: float,
    kv_cache_bytes: int | None = None,
    activations_bytes: int | None = None,
    weights_bytes: int | None = None,
    workload: Workload | None = None,
) -> Sizing:
    """Size one engine pod on GPUs of one class.

    `safety_line` is the share of the card that may be planned. `kv_cache_bytes` is a ceiling for
    the KV cache of each GPU; `weights_bytes` the size of the whole checkpoint;
    `activations_bytes` a measured peak of each GPU.

    Raises:
        Refused: the model or the configuration cannot be sized, or does not fit; the message has
            the numbers and what would work.
    """
    capability = _capability(gpu)
    laid_out = pool.layout(shape, engine, capability)
    division = _divide(shape, engine, gpu, safety_line, activations_bytes, weights_bytes)
    available = _available(division, laid_out, gpu, kv_cache_bytes)
    planned = pool.pool_of(laid_out, available)
    if not planned.fits:
        hint = _larger(shape, engine, gpu, safety_line, activations_bytes, weights_bytes)
        _refuse(planned, laid_out, division, gpu, available, kv_cache_bytes, hint)
    budget = _budget(division, gpu, planned, kv_cache_bytes)
    at_p95 = None
    if workload is not None:
        at_p95 = pool.requests_of(planned, workload.prompt_tokens_p95, workload.output_tokens_p95)
    sizing = Sizing(
        budget=budget,
        pool=planned,
        requests_at_max_model_len=pool.requests_of(planned, engine.max_model_len, 0),
        requests_at_p95=at_p95,
        because=(),
        gpu_memory_utilization=division.utilization,
        kv_cache_memory_bytes=kv_cache_bytes,
    )
    return replace(sizing, because=_because(sizing, shape, engine, gpu, safety_line, workload))


def _capability(gpu: Gpu) -> tuple[int, int]:
    if gpu.compute_capability is None:
        raise Refused(
            Reason.GPU_UNKNOWN,
            f"the compute capability of {gpu.product} is not known, and attention backends depend "
            "on it; declare it in the operator's nodeClasses setting",
        )
    return gpu.compute_capability


def _divide(
    shape: ModelShape,
    engine: EngineConfig,
    gpu: Gpu,
    safety_line: float,
    activations_bytes: int | None,
    weights_bytes: int | None,
) -> _Division:
    capability = _capability(gpu)
    dtype = kv_layers.model_dtype(shape, engine, capability)
    drafted = draft.read(shape, engine)
    captured = graphs.of(shape, engine, capability)
    outside = runtime.outside(engine)
    is_counted = bands.counts_cuda_graphs(engine.version)
    unseen = outside if is_counted else outside + captured
    utilization = _utilization(gpu, safety_line, unseen)
    return _Division(
        requested_bytes=math.ceil(gpu.cuda_total.bytes * utilization),
        utilization=utilization,
        weights=weights.of(shape, engine, dtype, weights_bytes),
        activations=activations.of(shape, engine, dtype, activations_bytes),
        cuda_graphs=captured,
        draft=weights.of_draft(shape, drafted, engine, dtype) if drafted else exact(0),
        inside=runtime.inside(shape, engine),
        outside=outside,
        graphs_are_counted=is_counted,
    )


def _utilization(gpu: Gpu, safety_line: float, unseen: Figure) -> float:
    """Return the share that the engine may ask for, rounded down to four digits.

    The safety line, or less where what the engine does not see needs more than the rest.
    """
    card = gpu.cuda_total.bytes
    share = min(safety_line, (card - unseen.bytes) / card)
    return max(0.0, math.floor(share * 10_000 + 1e-9) / 10_000)


def _available(
    division: _Division, laid_out: KVLayout, gpu: Gpu, kv_cache_bytes: int | None
) -> int:
    """Return the bytes for KV on each GPU: what is left, or the ceiling if that fits."""
    if kv_cache_bytes is None:
        return division.left_bytes
    if kv_cache_bytes > max(0, division.left_bytes):
        reason = Reason.WEIGHTS_DO_NOT_FIT if division.left_bytes <= 0 else Reason.BUDGET_TOO_SMALL
        raise Refused(
            reason,
            f"a KV cache of {gib(kv_cache_bytes)} does not fit {gpu.product}: of "
            f"{gib(gpu.cuda_total.bytes)}, {gib(division.requested_bytes)} lie below the safety "
            f"line and {gib(division.fixed.bytes)} are taken by "
            f"{_taken(division)}; {gib(max(0, division.left_bytes))} fit",
            "spec.budget.kvCache",
        )
    return kv_cache_bytes


def _larger(
    shape: ModelShape,
    engine: EngineConfig,
    gpu: Gpu,
    safety_line: float,
    activations_bytes: int | None,
    weights_bytes: int | None,
) -> int | None:
    """Return the smallest tensor parallel that holds a request of max_model_len, or None."""
    for choice in parallelism.choices(shape):
        if choice <= engine.tensor_parallel:
            continue
        wider = replace(engine, tensor_parallel=choice)
        division = _divide(shape, wider, gpu, safety_line, activations_bytes, weights_bytes)
        needed = pool.layout(shape, wider, _capability(gpu)).least_bytes
        if division.left_bytes >= needed:
            return choice
    return None


def _refuse(
    planned: KVPool,
    laid_out: KVLayout,
    division: _Division,
    gpu: Gpu,
    available: int,
    kv_cache_bytes: int | None,
    larger: int | None,
) -> None:
    """Refuse a pool that does not hold one request of max_model_len."""
    wider = (
        f"tensorParallel {larger} fits"
        if larger
        else "no tensorParallel does with this model on this GPU"
    )
    if planned.estimated_max_model_len == 0 and kv_cache_bytes is None:
        raise Refused(
            Reason.WEIGHTS_DO_NOT_FIT,
            f"{gpu.product} has {gib(gpu.cuda_total.bytes)}, of which "
            f"{gib(division.requested_bytes)} lie below the safety line; {_taken(division)} take "
            f"{gib(division.fixed.bytes)} and leave nothing for KV; {wider}",
            "spec.pools.tensorParallel",
        )
    longest = planned.estimated_max_model_len
    shorter = f"maxModelLen {longest} fits" if longest else "not even one token fits"
    more = (
        f"budget.kvCache of {laid_out.least_bytes} bytes would do"
        if kv_cache_bytes is not None
        else wider
    )
    raise Refused(
        Reason.BUDGET_TOO_SMALL,
        f"a request of maxModelLen {laid_out.max_model_len} needs {gib(laid_out.least_bytes)} of "
        f"KV on each GPU, the engine's null block included; there are {gib(max(0, available))} on "
        f"{gpu.product}: {shorter}, or {more}",
        "spec.engine.maxModelLen",
    )


def _taken(division: _Division) -> str:
    return (
        f"weights ({gib(division.weights.bytes)}), activations "
        f"({gib(division.activations.bytes)}), CUDA graphs ({gib(division.cuda_graphs.bytes)}) "
        "and runtime"
    )


def _budget(division: _Division, gpu: Gpu, planned: KVPool, kv_cache_bytes: int | None) -> Budget:
    """Return the table; what no whole block fills, and what lies above the line, is reserve."""
    kv_bytes = planned.num_blocks * max(planned.bytes_per_block)
    if kv_cache_bytes is None:
        fixed = division.fixed
        kv_cache = Figure(
            kv_bytes,
            max(0, kv_bytes - (fixed.high - fixed.bytes)),
            kv_bytes + (fixed.bytes - fixed.low),
            fixed.how,
            "what the other lines leave, in whole blocks",
        )
    else:
        kv_cache = exact(kv_bytes, "spec.budget.kvCache, in whole blocks")
    run = division.outside + division.inside
    used = [division.weights, division.activations, division.cuda_graphs, division.draft, run]
    rest = gpu.cuda_total.bytes - sum(one.bytes for one in used) - kv_bytes
    return Budget(
        total=gpu.cuda_total,
        weights=division.weights,
        activations=division.activations,
        cuda_graphs=division.cuda_graphs,
        runtime=replace(run, source=f"{division.outside.source}; {division.inside.source}"),
        draft=division.draft,
        reserve=exact(rest, "above the safety line, and less than a block"),
        kv_cache=kv_cache,
    )


def _because(
    sizing: Sizing,
    shape: ModelShape,
    engine: EngineConfig,
    gpu: Gpu,
    safety_line: float,
    workload: Workload | None,
) -> tuple[str, ...]:
    """Return the sentences that led to the numbers, in the order of the arithmetic."""
    budget, planned = sizing.budget, sizing.pool
    sentences = [
        explain.kv_heads(shape, engine),
        explain.bytes_of_token(shape, engine, planned),
        explain.card(gpu, safety_line, sizing.gpu_memory_utilization),
        explain.lines(budget.weights, budget.activations, budget.cuda_graphs, budget.runtime),
        explain.kv_cache(budget.kv_cache, planned, sizing.kv_cache_memory_bytes),
        explain.requests(engine.max_model_len, sizing.requests_at_max_model_len, "maxModelLen"),
    ]
    if engine.speculative is not None and budget.draft.bytes:
        sentences.append(explain.draft(engine, budget.draft))
    if workload is not None and sizing.requests_at_p95 is not None:
        tokens = workload.prompt_tokens_p95 + workload.output_tokens_p95
        sentences.append(explain.requests(tokens, sizing.requests_at_p95, "the p95 workload"))
    if gpu.is_shared:
        sentences.append("the GPU is shared by time: memory of other processes is not counted")
    return tuple(sentences)
