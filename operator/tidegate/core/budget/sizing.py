"""From a card to a budget: what each line takes, what is left for KV, and what that holds."""

from dataclasses import dataclass, replace

from tidegate.api.figures import Figure, exact, measured
from tidegate.core.budget import bands, division, explain, fit, pool
from tidegate.core.budget import measured as measuring
from tidegate.core.budget.division import Case, Division
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.measured import MeasuredTerms
from tidegate.core.budget.pool import KVLayout, KVPool
from tidegate.core.budget.shape import ModelShape
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
    `reserve` is what is left free: the rest above the safety line, and what no whole block fills.
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

    `kv_cache_memory_bytes` is the size that the engine is given for KV: the user's ceiling, or what
    was measured; None where it profiles within `gpu_memory_utilization`. `is_measured` says that
    an engine told the sum of all that it takes beside KV.
    """

    budget: Budget
    pool: KVPool
    requests_at_max_model_len: int
    requests_at_p95: int | None
    because: tuple[str, ...]
    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None
    is_measured: bool = False


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
    terms: MeasuredTerms | None = None,
) -> Sizing:
    """Size one engine pod on GPUs of one class.

    `safety_line` is the share of the card that may be planned. `kv_cache_bytes` is a ceiling for
    the KV cache of each GPU; `weights_bytes` the size of the whole checkpoint;
    `activations_bytes` a measured peak of each GPU. `terms` take the place of estimates.

    Raises:
        Refused: the model or the configuration cannot be sized, or does not fit; the message has
            the numbers and what would work.
    """
    if terms is not None:
        gpu = measuring.card(gpu, terms)
    case = Case(shape, engine, gpu, safety_line, activations_bytes, weights_bytes)
    laid_out = pool.layout(shape, engine, case.compute_capability)
    divided = division.divide(case)
    if terms is not None:
        divided = measuring.apply(divided, terms, case)
    planned = pool.pool_of(laid_out, fit.available_bytes(case, divided, kv_cache_bytes))
    fit.require_one_request(case, divided, planned, laid_out, kv_cache_bytes)
    sizing = Sizing(
        budget=_budget(divided, gpu, planned, kv_cache_bytes),
        pool=planned,
        requests_at_max_model_len=pool.requests_of(planned, engine.max_model_len, 0),
        requests_at_p95=None if workload is None else _at_p95(planned, workload),
        because=(),
        gpu_memory_utilization=divided.utilization,
        kv_cache_memory_bytes=kv_cache_bytes,
        is_measured=divided.is_measured,
    )
    because = _because(sizing, case, workload) + _doubts(sizing, case, divided, laid_out)
    return replace(sizing, because=because)


def _at_p95(planned: KVPool, workload: Workload) -> int:
    return pool.requests_of(planned, workload.prompt_tokens_p95, workload.output_tokens_p95)


def _budget(divided: Division, gpu: Gpu, planned: KVPool, kv_cache_bytes: int | None) -> Budget:
    """Return the table; what no whole block fills, and what lies above the line, is reserve."""
    kv_bytes = planned.num_blocks * max(planned.bytes_per_block)
    run = divided.outside + divided.inside
    used = (divided.weights, divided.activations, divided.cuda_graphs, divided.draft, run)
    rest = gpu.cuda_total.bytes - sum(figure.bytes for figure in used) - kv_bytes
    return Budget(
        total=gpu.cuda_total,
        weights=divided.weights,
        activations=divided.activations,
        cuda_graphs=divided.cuda_graphs,
        runtime=replace(run, source=f"{divided.outside.source}; {divided.inside.source}"),
        draft=divided.draft,
        reserve=exact(rest, "above the safety line, and less than a block"),
        kv_cache=_kv_cache(divided, gpu, kv_bytes, kv_cache_bytes),
    )


def _kv_cache(divided: Division, gpu: Gpu, kv_bytes: int, kv_cache_bytes: int | None) -> Figure:
    """Return KV with the bands of all that it is the rest of; a ceiling has none."""
    if kv_cache_bytes is not None:
        return exact(kv_bytes, "spec.budget.kvCache, in whole blocks")
    if divided.is_measured:
        return measured(kv_bytes, "what an engine of this configuration found, in whole blocks")
    fixed, card = divided.fixed, gpu.cuda_total
    error = bands.term("accounting_error")
    less = fixed.high - fixed.bytes + round((card.bytes - card.low) * divided.utilization)
    more = fixed.bytes - fixed.low + round((card.high - card.bytes) * divided.utilization)
    source = "what the other lines leave below the safety line, in whole blocks"
    return Figure(
        kv_bytes,
        max(0, kv_bytes - less + round(error.low)),
        kv_bytes + more + round(error.high),
        fixed.how,
        source,
    )


def _because(sizing: Sizing, case: Case, workload: Workload | None) -> tuple[str, ...]:
    """Return the sentences that led to the numbers, in the order of the arithmetic."""
    budget, planned, engine = sizing.budget, sizing.pool, case.engine
    sentences = [
        explain.division(case.shape, engine),
        explain.bytes_of_token(case.shape, engine, planned),
        explain.card(case.gpu, case.safety_line, sizing.gpu_memory_utilization),
        explain.lines(budget.weights, budget.activations, budget.cuda_graphs, budget.runtime),
        explain.kv_cache(budget.kv_cache, planned, sizing.kv_cache_memory_bytes),
        explain.requests(engine.max_model_len, sizing.requests_at_max_model_len, "maxModelLen"),
    ]
    if budget.draft.bytes:
        sentences.append(explain.draft(engine, budget.draft))
    if workload is not None and sizing.requests_at_p95 is not None:
        tokens = workload.prompt_tokens_p95 + workload.output_tokens_p95
        sentences.append(explain.requests(tokens, sizing.requests_at_p95, "the p95 workload"))
    return tuple(sentences)


def _doubts(sizing: Sizing, case: Case, divided: Division, laid_out: KVLayout) -> tuple[str, ...]:
    """Return what may still go wrong with a plan that fits by its estimates."""
    sentences = []
    ceiling_bytes = sizing.kv_cache_memory_bytes
    wanted_bytes = laid_out.least_bytes if ceiling_bytes is None else ceiling_bytes
    if divided.worst_left_bytes < wanted_bytes:
        what = "one request of maxModelLen" if ceiling_bytes is None else "the ceiling"
        sentences.append(explain.worst_case(divided.worst_left_bytes, wanted_bytes, what))
    if case.gpu.is_shared:
        sentences.append("the GPU is shared by time: memory of other processes is not counted")
    return tuple(sentences)
