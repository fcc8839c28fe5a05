"""From what a pod told at its start to what is known of its configuration."""

import math
from dataclasses import dataclass

from tidegate.core.budget.measured import MeasuredTerms
from tidegate.core.measure.measurement import Measurement
from tidegate.core.measure.store import Entry
from tidegate.core.slice_plan import SlicePlan
from tidegate.facts.cache_config import CacheConfig
from tidegate.facts.startup_log import StartupLog

_ROUNDING_BYTES = 6 * 2**20
"""The engine tells the card's memory in GiB with two decimals."""


@dataclass(frozen=True)
class Reading:
    """What one start of an engine told."""

    cache: CacheConfig
    log: StartupLog


def entry(
    planned: SlicePlan,
    reading: Reading,
    image: str,
    image_digest: str,
    model: str,
    now: float,
) -> Entry | None:
    """Return what is learnt from an engine of a slice; None where nothing is to be.

    From a GPU that others use as well nothing is: what they take is in the numbers.
    """
    if planned.node_class.gpu.is_used_by_others or not planned.configuration:
        return None
    terms = _terms(planned, reading)
    if terms == MeasuredTerms():
        return None
    measurement = Measurement(terms, planned.engine.max_model_len, planned.engine.max_num_seqs)
    return Entry(
        planned.configuration, image, image_digest, measurement, now, _about(planned, model)
    )


def _terms(planned: SlicePlan, reading: Reading) -> MeasuredTerms:
    log = reading.log
    return MeasuredTerms(
        weights_bytes=log.weights_bytes,
        activations_bytes=log.activations_bytes,
        cuda_graphs_bytes=log.cuda_graphs_bytes,
        non_torch_bytes=log.non_torch_bytes,
        beside_kv_bytes=_beside_kv(planned, reading),
        total_bytes=_other_total(planned, reading),
    )


def _other_total(planned: SlicePlan, reading: Reading) -> int | None:
    """Return the card's memory where the engine saw another than was planned with."""
    told, expected = reading.log.total_bytes, planned.sizing.budget.total
    if told is None or abs(told - expected.bytes) <= _ROUNDING_BYTES:
        return expected.bytes if planned.basis and planned.basis.terms.total_bytes else None
    return told


def _beside_kv(planned: SlicePlan, reading: Reading) -> int | None:
    """Return what the engine took off what it may use, to a block; None where it was not told.

    Only an engine that measured for itself, with the blocks that were planned, tells it.
    """
    cache, pool = reading.cache, planned.sizing.pool
    if not reading.log.is_profiled or cache.given_bytes is not None:
        return None
    if cache.block_size != pool.block_size:
        return None
    total_bytes = _other_total(planned, reading) or planned.sizing.budget.total.bytes
    requested = math.ceil(total_bytes * cache.utilization)
    beside = requested - cache.blocks * max(pool.bytes_per_block)
    return beside if beside > 0 else None


def _about(planned: SlicePlan, model: str) -> str:
    engine = planned.engine
    return (
        f"{model} on {planned.node_class.name}, vLLM {engine.version}, "
        f"tensorParallel {engine.tensor_parallel}, KV {engine.kv_cache_dtype}, "
        f"{engine.max_num_batched_tokens} batched tokens"
    )
