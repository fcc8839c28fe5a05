"""The sentences behind a plan, with the numbers that led to it."""

from tidegate.api.figures import Figure, How
from tidegate.core.budget import parallelism
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.mixers import Attention, AttentionMixer
from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.reach import AllTokens
from tidegate.core.budget.shape import ModelShape
from tidegate.facts.gpus import Gpu

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def gib(count_bytes: int) -> str:
    """Spell a count of bytes in the largest binary unit that leaves a number above one."""
    for unit, unit_bytes in _UNITS:
        if abs(count_bytes) >= unit_bytes:
            return f"{count_bytes / unit_bytes:.2f} {unit}"
    return f"{count_bytes} bytes"


def division(shape: ModelShape, engine: EngineConfig) -> str:
    """Say how tensor parallel divides what is cached, or that every GPU holds all of it."""
    with_heads = next((layer.attention for layer in shape.kinds if layer.attention), None)
    if with_heads is not None:
        return _kv_heads(with_heads, engine.tensor_parallel)
    mixers = [mixer for layer in shape.kinds for mixer in layer.mixers]
    if any(isinstance(mixer, AttentionMixer) for mixer in mixers):
        return "the latent cache has no heads to divide: every GPU holds all of it"
    return "recurrent state is divided by its channels, and does not grow with the sequence"


def _kv_heads(attention: Attention, size: int) -> str:
    heads = attention.kv_heads
    left = parallelism.kv_heads_per_gpu(heads, size)
    if size > heads:
        return f"{heads} KV heads over tensorParallel {size} are replicated: {left} on each GPU"
    if size == 1:
        return f"{heads} KV heads for {attention.heads} attention heads"
    return f"{heads} KV heads over tensorParallel {size} leave {left} on each GPU"


def bytes_of_token(shape: ModelShape, engine: EngineConfig, pool: KVPool) -> str:
    """Say what a token costs, and what a request costs whatever its length."""
    bounded = [group for group in pool.groups if not isinstance(group.reach, AllTokens)]
    blocks = sum(group.blocks_of(engine.max_model_len) for group in bounded)
    sentence = (
        f"a token takes {pool.bytes_per_token:,} bytes of KV on each GPU ({shape.layer_count} "
        f"layers, KV dtype {engine.kv_cache_dtype}), in blocks of {pool.block_size} tokens"
    )
    if not blocks:
        return sentence
    most = gib(blocks * max(pool.bytes_per_block))
    return (
        f"{sentence}; windows, chunks and states of a long request take {most} beside, and no more"
    )


def card(gpu: Gpu, safety_line: float, utilization: float) -> str:
    """Say what the card has and how much of it the engine may ask for."""
    sentence = f"{gpu.product} shows CUDA {gib(gpu.cuda_total.bytes)}"
    if utilization + 1e-4 < safety_line:  # more than the rounding
        return (
            f"{sentence}; the engine may ask for {utilization:.4f} of it, less than the safety "
            f"line {safety_line:g}, to leave room for the CUDA context"
        )
    return f"{sentence}; the safety line lets the engine ask for {utilization:g} of it"


def lines(weights: Figure, activations: Figure, cuda_graphs: Figure, runtime: Figure) -> str:
    """Say what is taken before KV."""
    return (
        f"weights take {_figure(weights)}, activations {_figure(activations)}, CUDA graphs "
        f"{_figure(cuda_graphs)}, runtime {_figure(runtime)}"
    )


def kv_cache(figure: Figure, pool: KVPool, ceiling_bytes: int | None) -> str:
    """Say what KV gets and what that holds."""
    whence = "the ceiling gives" if ceiling_bytes is not None else "that leaves"
    return (
        f"{whence} {_figure(figure)} for KV: {pool.num_blocks:,} blocks, one of them the engine's "
        f"null block, {pool.cache_size_tokens:,} tokens"
    )


def requests(tokens: int, count: int, what: str) -> str:
    """Say how many requests fit."""
    noun, verb = ("request", "fits") if count == 1 else ("requests", "fit")
    return f"{count:,} {noun} of {tokens:,} tokens ({what}) {verb} at once"


def worst_case(left_bytes: int, wanted_bytes: int, what: str) -> str:
    """Say that the plan rests on estimates that may be too low."""
    left = gib(left_bytes) if left_bytes > 0 else "nothing"
    return (
        f"if every estimate is as high as its band, {left} is left for KV, less than the "
        f"{gib(wanted_bytes)} of {what}: measure it, or leave more room"
    )


def draft(engine: EngineConfig, figure: Figure) -> str:
    """Say what speculation costs."""
    method = engine.speculative.method if engine.speculative else ""
    return f"the {method} draft takes {_figure(figure)} of weights, and its layers keep KV too"


def _figure(figure: Figure) -> str:
    if figure.how is not How.ESTIMATED or figure.low == figure.high:
        return gib(figure.bytes)
    return f"{gib(figure.bytes)} ({gib(figure.low)} to {gib(figure.high)})"
