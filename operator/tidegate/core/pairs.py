"""Prefill and decode as a pair: what must be alike on both sides, and whether the split pays."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.budget import transfer
from tidegate.core.budget.shape import ModelShape
from tidegate.core.slice_plan import SlicePlan
from tidegate.errors import Refused
from tidegate.facts.gpus import Gpu

_Computing = Callable[[int, Gpu, int], tuple[float, float] | None]
"""From tokens, card and tensor parallel size to the least and the most seconds of a prefill."""


def check(spec: LLMDeploymentSpec, slices: Sequence[SlicePlan]) -> None:
    """Refuse a pair whose engines would turn each other away at the first request.

    Model, dtype, KV dtype and connector come from one spec, so they are alike. What can still
    differ: the block size (a backend's choice by GPU) and the division of KV heads.

    Raises:
        Refused: PAIR_INCOMPATIBLE with what differs and the field that settles it.
    """
    if spec.pools.prefill is None or spec.pools.decode is None:
        return
    blocks = {f"{s.pool} on {s.node_class.product}": s.sizing.pool.block_size for s in slices}
    if len(set(blocks.values())) > 1:
        raise Refused(
            Reason.PAIR_INCOMPATIBLE,
            f"the engine would use different block sizes ({_listed(blocks)}), and prefill and "
            "decode pods must have the same; set kvCache.blockSize",
            "spec.kvCache.blockSize",
        )
    prefill, decode = spec.pools.prefill.tensor_parallel, spec.pools.decode.tensor_parallel
    if max(prefill, decode) % min(prefill, decode):
        raise Refused(
            Reason.PAIR_INCOMPATIBLE,
            f"tensorParallel {prefill} of prefill and {decode} of decode do not divide each other, "
            "so their KV heads cannot be matched; make one a multiple of the other",
            "spec.pools.prefill.tensorParallel",
        )
    dtype = next((s.engine.kv_cache_dtype for s in slices), "auto")
    if prefill != decode and dtype.startswith("turboquant"):
        raise Refused(
            Reason.PAIR_INCOMPATIBLE,
            f"KV of {dtype} is not laid out by heads, so it cannot go from tensorParallel "
            f"{prefill} of prefill to {decode} of decode; make them equal, or use another "
            "kvCache.dtype",
            "spec.pools.prefill.tensorParallel",
        )
    for name, pool in spec.pools.by_name().items():
        if pool.pipeline_parallel > 1:
            raise Refused(
                Reason.PAIR_INCOMPATIBLE,
                f"pipelineParallel {pool.pipeline_parallel}: the Nixl connector does not move KV "
                "between pipeline stages; set it to 1 and raise tensorParallel",
                f"spec.pools.{name}.pipelineParallel",
            )


def because(
    spec: LLMDeploymentSpec, model: ModelShape, slices: Sequence[SlicePlan]
) -> tuple[str, ...]:
    """Say what the transfer of a prompt costs beside computing it, and warn when it is too much."""
    prefill = [entry for entry in slices if entry.pool == "prefill"]
    if not prefill:
        return ()
    computing = cache(partial(transfer.prefill_seconds, model))  # classes of a card have the same
    return tuple(_cost(spec, entry, computing) for entry in prefill) + _gathered(spec)


def _gathered(spec: LLMDeploymentSpec) -> tuple[str, ...]:
    """Warn of a prefill that is wider than decode: each decode GPU then reads from several."""
    pools = spec.pools
    if pools.prefill is None or pools.decode is None:
        return ()
    prefill, decode = pools.prefill.tensor_parallel, pools.decode.tensor_parallel
    if prefill <= decode:
        return ()
    return (
        f"tensorParallel {prefill} of prefill is above {decode} of decode: each decode GPU reads "
        f"from {prefill // decode} prefill GPUs, a path that few deployments take; try it first, "
        "or make decode at least as wide",
    )


def _cost(spec: LLMDeploymentSpec, entry: SlicePlan, computing: _Computing) -> str:
    tokens = spec.workload.prompt_tokens.p95 if spec.workload else entry.engine.max_model_len
    kind = "p95" if spec.workload else "longest"
    moved = transfer.transfer_seconds(entry.sizing.pool, tokens, spec.kv_cache.transfer.bandwidth)
    head = (
        f"moving the KV of a {kind} prompt ({tokens} tokens) takes {moved * 1000:.1f} ms at "
        f"{spec.kv_cache.transfer.bandwidth / 1e9:.1f} GB/s"
    )
    computed = computing(tokens, entry.node_class.gpu, entry.engine.tensor_parallel)
    if computed is None:
        return f"{head}; how long {entry.node_class.product} computes it is not known"
    least, most = computed
    product = entry.node_class.product
    beside = f"{head}, computing it on {product} {least * 1000:.1f} to {most * 1000:.1f} ms"
    if moved > least / 2:
        return f"{beside}: the split may not pay; a unified pool or a faster network would"
    return f"{beside}: the split can pay"


def _listed(values: Mapping[str, int]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in sorted(values.items()))
