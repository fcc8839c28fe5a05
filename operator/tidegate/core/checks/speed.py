"""How long things take on a card, at least and at most: what objectives and costs are judged by."""

from tidegate.core.budget import transfer, weights
from tidegate.core.checks.subject import Slice
from tidegate.facts import host_links

_LINK_EFFICIENCY = (0.6, 0.9)
"""The share of a host link's own rate that copies of KV blocks reach: small blocks and large."""
Band = tuple[float, float]


def prefill_seconds(at: Slice, tokens: int) -> Band | None:
    """Return the least and the most seconds to compute a prompt; None where it is not known."""
    if tokens <= 0:
        return 0.0, 0.0
    return transfer.prefill_seconds(at.model, tokens, at.gpu, at.entry.engine.tensor_parallel)


def token_seconds(at: Slice) -> float | None:
    """Return the least seconds between two tokens of an answer; None where it is not known.

    A step reads from the card's memory every weight that a token passes through. With speculation
    it yields at most one token more than are proposed.
    """
    bandwidth = at.gpu.memory_bandwidth_bytes_per_second
    counted = weights.parameters(at.model)
    if bandwidth is None or counted is None:
        return None
    active, every = counted
    stages = at.entry.engine.pipeline_parallel
    read_bytes = at.entry.sizing.budget.weights.low * stages * active / every
    speculative = at.entry.engine.speculative
    return read_bytes / bandwidth / (1 + (speculative.tokens if speculative else 0))


def reload_seconds(at: Slice, tokens: int) -> Band | None:
    """Return how long KV of a context takes from host memory back to the GPUs, each by itself."""
    link = host_links.of(at.gpu)
    if link is None:
        return None
    each_gpu_bytes = transfer.transfer_bytes(at.entry.sizing.pool, tokens) / at.entry.gpus
    low, high = _LINK_EFFICIENCY
    return (
        each_gpu_bytes / (link.bytes_per_second * high),
        each_gpu_bytes / (link.bytes_per_second * low),
    )


def transfer_seconds(at: Slice, tokens: int) -> float:
    """Return how long the KV of a prompt takes from a prefill pod to a decode pod."""
    bandwidth = at.spec.kv_cache.transfer.bandwidth
    return transfer.transfer_seconds(at.entry.sizing.pool, tokens, bandwidth)
