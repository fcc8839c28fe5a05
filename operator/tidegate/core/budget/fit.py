"""Refusals of what does not fit, each with the numbers and the nearest change that works."""

from dataclasses import replace

from tidegate.api.reasons import Reason
from tidegate.core.budget import division, parallelism, pool
from tidegate.core.budget.division import Case, Division
from tidegate.core.budget.explain import gib
from tidegate.core.budget.pool import KVLayout, KVPool
from tidegate.errors import Refused


def available_bytes(case: Case, divided: Division, ceiling_bytes: int | None) -> int:
    """Return the bytes for KV on each GPU: what is left, or the user's ceiling if that fits.

    Raises:
        Refused: the ceiling does not fit.
    """
    left = divided.left_bytes
    if ceiling_bytes is None:
        return left
    if ceiling_bytes > max(0, left):
        raise Refused(
            Reason.WEIGHTS_DO_NOT_FIT if left <= 0 else Reason.BUDGET_TOO_SMALL,
            f"a KV cache of {gib(ceiling_bytes)} does not fit {_card(case, divided)}; "
            f"{_taken(divided)}; {gib(max(0, left))} ({max(0, left)} bytes) fit",
            "spec.budget.kvCache",
        )
    return ceiling_bytes


def require_one_request(
    case: Case, divided: Division, planned: KVPool, laid_out: KVLayout, ceiling_bytes: int | None
) -> None:
    """Check that the pool holds one request of max_model_len.

    Raises:
        Refused: it does not; WEIGHTS_DO_NOT_FIT where it holds nothing at all.
    """
    there = divided.left_bytes if ceiling_bytes is None else ceiling_bytes
    _require_override_fits(case, planned, there)
    if planned.fits:
        return
    longest = planned.estimated_max_model_len
    override = laid_out.num_blocks_override
    if override is not None and there // max(planned.bytes_per_block) > planned.blocks_per_request:
        raise Refused(
            Reason.BUDGET_TOO_SMALL,
            f"a request of max-model-len {laid_out.max_model_len} takes "
            f"{planned.blocks_per_request} blocks and the engine keeps one, and "
            f"num-gpu-blocks-override allows {override}; {_shorter(longest)}, or give "
            f"{planned.blocks_per_request + 1} blocks",
            "spec.engine.extraArgs",
        )
    if longest == 0 and ceiling_bytes is None:
        tokens = _smaller_batch(case)
        if tokens is not None:
            raise Refused(
                Reason.BUDGET_TOO_SMALL,
                f"the activations of maxNumBatchedTokens {case.engine.max_num_batched_tokens} "
                f"leave no room for KV on {_card(case, divided)}; {_taken(divided)}; "
                f"maxNumBatchedTokens {tokens} fits",
                "spec.engine.maxNumBatchedTokens",
            )
        raise Refused(
            Reason.WEIGHTS_DO_NOT_FIT,
            f"no room for KV on {_card(case, divided)}; {_taken(divided)}; {_wider(case)}",
            "spec.pools.tensorParallel",
        )
    more = _wider(case) if ceiling_bytes is None else _higher(laid_out)
    raise Refused(
        Reason.BUDGET_TOO_SMALL,
        f"a request of maxModelLen {laid_out.max_model_len} needs {gib(laid_out.least_bytes)} of "
        f"KV on each GPU, the engine's null block included, and there are {gib(there)} on "
        f"{case.gpu.product}; {_shorter(longest)}; {more}",
        "spec.engine.maxModelLen" if ceiling_bytes is None else "spec.budget.kvCache",
    )


def _shorter(longest: int) -> str:
    return f"maxModelLen {longest} fits" if longest else "not one token fits"


def _require_override_fits(case: Case, planned: KVPool, there_bytes: int) -> None:
    """Refuse a number of blocks that the engine would take as it is, and run out of memory with."""
    override = case.engine.num_gpu_blocks_override
    most = there_bytes // max(planned.bytes_per_block)
    if override is not None and override > most:
        raise Refused(
            Reason.BUDGET_TOO_SMALL,
            f"num-gpu-blocks-override {override} needs more than the {gib(there_bytes)} there are "
            f"on {case.gpu.product}; {max(0, most)} blocks fit",
            "spec.engine.extraArgs",
        )


def smallest_tensor_parallel(case: Case) -> int | None:
    """Return the smallest larger tensor parallel that holds a request of max_model_len."""
    if case.gpu.is_part:
        return None
    for size in parallelism.choices(case.shape):
        if size <= case.engine.tensor_parallel:
            continue
        wider = replace(case, engine=replace(case.engine, tensor_parallel=size))
        needed = pool.layout(wider.shape, wider.engine, wider.compute_capability).least_bytes
        if division.divide(wider).left_bytes >= needed:
            return size
    return None


def _wider(case: Case) -> str:
    if case.gpu.is_part:
        return "a pod uses one part of a card at most; a larger part or whole cards have more"
    size = smallest_tensor_parallel(case)
    return f"tensorParallel {size} fits" if size else "no larger tensorParallel fits either"


def _smaller_batch(case: Case) -> int | None:
    """Return the largest halved batch that leaves room for one request, None for none."""
    engine = case.engine
    floor = engine.max_num_seqs
    if not engine.enable_chunked_prefill:
        floor = max(floor, engine.max_model_len)
    tokens = engine.max_num_batched_tokens // 2
    while tokens >= floor:
        smaller = replace(case, engine=replace(engine, max_num_batched_tokens=tokens))
        needed = pool.layout(smaller.shape, smaller.engine, case.compute_capability).least_bytes
        if division.divide(smaller).left_bytes >= needed:
            return tokens
        tokens //= 2
    return None


def _higher(laid_out: KVLayout) -> str:
    return f"budget.kvCache of {laid_out.least_bytes} bytes holds it"


def _card(case: Case, divided: Division) -> str:
    return (
        f"{case.gpu.product}: it has {gib(case.gpu.cuda_total.bytes)}, of which the engine may use "
        f"{gib(divided.requested_bytes)}"
    )


def _taken(divided: Division) -> str:
    return (
        f"weights ({gib(divided.weights.bytes)}), activations ({gib(divided.activations.bytes)}), "
        f"CUDA graphs ({gib(divided.cuda_graphs.bytes)}), draft and runtime take "
        f"{gib(divided.fixed.bytes)}"
    )
