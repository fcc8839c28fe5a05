"""Does a prefill/decode split pay: the time to move a prompt's KV beside the time to compute it."""

from tidegate.core.budget import bands, weights
from tidegate.core.budget.mixers import Attention, AttentionMixer, CompressedAttention
from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.shape import ModelShape
from tidegate.facts.gpus import Gpu

USUAL_PROMPT_TOKENS = 2048
"""A prompt for which the speed of prefill is told; attention slows far longer ones."""
_LEAST_STEP_SECONDS = 0.01
"""What an engine's step with a prompt takes however small the model: launches, sampling, Python."""


def transfer_bytes(pool: KVPool, tokens: int) -> int:
    """Return the KV of a prompt, on all GPUs of a pod together; whole blocks move."""
    blocks = sum(group.blocks_of(tokens) for group in pool.groups)
    return blocks * sum(pool.bytes_per_block) * pool.tensor_parallel


def transfer_seconds(pool: KVPool, tokens: int, bandwidth_bytes_per_second: int) -> float:
    """Return the seconds to move the KV of a prompt of `tokens` between two pods."""
    return transfer_bytes(pool, tokens) / bandwidth_bytes_per_second


def prefill_seconds(
    shape: ModelShape, tokens: int, gpu: Gpu, tensor_parallel: int
) -> tuple[float, float] | None:
    """Return the least and the most seconds to compute a prompt; None where it cannot be told.

    Two operations for each weight that a token passes through, and for each pair of tokens in
    attention, at the share of the card's dense rate that prefill reaches.
    """
    counted = weights.parameters(shape)
    if counted is None or not gpu.bf16_flops:
        return None
    active, _ = counted
    scores = sum(
        2 * mixer.score_dims * _pairs(mixer, tokens)
        for layer in shape.layers
        for mixer in layer.mixers
        if isinstance(mixer, AttentionMixer)
    )
    operations = 2 * active * tokens + scores
    seconds_at_full_rate = operations / (gpu.bf16_flops * tensor_parallel)
    efficiency = bands.term("prefill_efficiency")
    return seconds_at_full_rate / efficiency.high, seconds_at_full_rate / efficiency.low


def prefill_tokens_per_second(
    shape: ModelShape, gpu: Gpu, tensor_parallel: int, tokens: int
) -> float | None:
    """Return the speed at which prompts of `tokens` are computed, in the middle of its band.

    In whole tokens: it is an estimate, and a part of objects that people read.
    """
    band = prefill_seconds(shape, tokens, gpu, tensor_parallel)
    if band is None:
        return None
    return float(max(1, round(tokens / max(sum(band) / 2, _LEAST_STEP_SECONDS))))


def _pairs(mixer: AttentionMixer, tokens: int) -> float:
    """Return the pairs of tokens of a prompt that a layer scores."""
    bound = mixer.window or mixer.chunk if isinstance(mixer, Attention) else None
    if isinstance(mixer, CompressedAttention):
        bound = mixer.window + tokens // mixer.ratio if mixer.ratio > 1 else mixer.window
    return tokens * min(tokens / 2, bound or tokens)
