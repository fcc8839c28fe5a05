"""One answer of a batch: what a case leads to, as one JSON object.

A case that cannot be read gets `error`; one that the engine or the budget refuses gets `refused`
with a reason. A pool that is too small for one request is no refusal where its bytes were given.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.figures import Figure
from tidegate.core.batch import case as cases
from tidegate.core.batch import document
from tidegate.core.batch.case import Case
from tidegate.core.budget import explain, pool
from tidegate.core.budget.division import Case as Division
from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.shape import ModelShape
from tidegate.core.budget.sizing import Budget
from tidegate.core.command_line import served_model, settings, sized
from tidegate.errors import Invalid, Refused


@dataclass(frozen=True)
class Answer:
    """The object to print; `is_readable` is false where the line itself was at fault."""

    document: Mapping[str, Any]
    is_readable: bool


def answer(line: str, number: int) -> Answer:
    """Answer one line; `number` counts the lines from 1."""
    case_id = None
    try:
        asked = document.parse(line)
        case_id = document.label(asked, "id")
        return Answer({"id": case_id, **_verdict(cases.read(asked))}, True)
    except Refused as refusal:
        refused = {"reason": str(refusal.reason), "message": refusal.message}
        return Answer({"id": case_id, "refused": refused}, True)
    except Invalid as invalid:
        return unreadable(number, "; ".join(map(str, invalid.problems)), case_id)


def unreadable(number: int, problem: str, case_id: str | int | None = None) -> Answer:
    """Answer a line that is no case."""
    told = f"line {number}: {problem}"
    return Answer({"id": case_id, "line": number, "error": told}, False)


def _verdict(case: Case) -> dict[str, Any]:
    model = served_model.of(case.model_config, case.arguments)
    if case.available_kv_bytes is None:
        return _sized(case, model)
    return _pool_only(case, model, case.available_kv_bytes)


def _sized(case: Case, model: ModelShape) -> dict[str, Any]:
    release = case.release
    found = sized.size(
        case.arguments, model, release.engine, case.gpu, case.workload, release.version
    )
    sizing = found.sizing
    return {
        "refused": None,
        "fits": sizing.pool.fits,
        "budget": _budget(sizing.budget),
        "kv": _pool(sizing.pool, sizing.requests_at_max_model_len, sizing.requests_at_p95),
        "because": [*found.because, *release.notes],
    }


def _pool_only(case: Case, model: ModelShape, available_bytes: int) -> dict[str, Any]:
    release = case.release
    settled = settings.settle(case.arguments, model, release.engine, case.gpu, release.version)
    settled = sized.fitted(settled, model, case.gpu, available_bytes)
    sized.require_fitting(case.workload, settled)
    engine, workload = settled.engine, case.workload
    capability = Division(model, engine, case.gpu, settled.memory_share).compute_capability
    planned = pool.kv_pool(model, engine, available_bytes, capability)
    at_longest = pool.requests_of(planned, engine.max_model_len, 0)
    at_p95 = None
    because = [
        explain.bytes_of_token(model, engine, planned),
        explain.requests(engine.max_model_len, at_longest, "maxModelLen"),
    ]
    if workload is not None:
        at_p95 = pool.requests_of(planned, workload.prompt_tokens_p95, workload.output_tokens_p95)
        tokens = workload.prompt_tokens_p95 + workload.output_tokens_p95
        because.append(explain.requests(tokens, at_p95, "the p95 workload"))
    if not planned.fits:
        because.append(_too_small(planned, engine.max_model_len, available_bytes))
    return {
        "refused": None,
        "fits": planned.fits,
        "budget": None,
        "kv": _pool(planned, at_longest, at_p95),
        "because": [*because, *settled.notes, *release.notes],
    }


def _too_small(planned: KVPool, max_model_len: int, available_bytes: int) -> str:
    longest = planned.estimated_max_model_len
    nearest = f"max-model-len {longest} fits" if longest else "not one token fits"
    least = planned.needed_bytes + max(planned.bytes_per_block)
    return (
        f"a request of max-model-len {max_model_len} needs {explain.gib(least)} of KV, the "
        f"engine's null block included, and there are {explain.gib(available_bytes)}; {nearest}"
    )


def _budget(budget: Budget) -> dict[str, Any]:
    return {
        "totalBytes": budget.total.bytes,
        "weights": _line(budget.weights),
        "activations": _line(budget.activations),
        "cudaGraphs": _line(budget.cuda_graphs),
        "runtime": _line(budget.runtime),
        "draft": _line(budget.draft),
        "reserve": _line(budget.reserve),
        "kvCache": _line(budget.kv_cache),
    }


def _line(figure: Figure) -> dict[str, Any]:
    return {
        "bytes": figure.bytes,
        "low": figure.low,
        "high": figure.high,
        "how": figure.how.value,
    }


def _pool(planned: KVPool, at_longest: int, at_p95: int | None) -> dict[str, Any]:
    return {
        "bytesPerBlock": list(planned.bytes_per_block),
        "blockSize": planned.block_size,
        "numBlocks": planned.num_blocks,
        "blocksPerRequest": planned.blocks_per_request,
        "blocksPerRequestByGroup": list(planned.blocks_per_request_by_group),
        "maxConcurrency": planned.max_concurrency,
        "cacheSizeTokens": planned.cache_size_tokens,
        "neededBytes": planned.needed_bytes,
        "estimatedMaxModelLen": planned.estimated_max_model_len,
        "maxModelLenThatFits": planned.max_model_len_that_fits,
        "requests": {"atMaxModelLen": at_longest, "atP95": at_p95},
    }
