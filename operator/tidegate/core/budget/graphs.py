"""CUDA graphs: one is captured for each batch size of a fixed ladder."""

from tidegate.api.figures import Figure, exact
from tidegate.core.budget import bands
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape


def of(shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]) -> Figure:
    """Return the bytes that captured graphs take on each GPU."""
    if engine.enforce_eager:
        return exact(0, "enforceEager")
    graphs = _count(engine, compute_capability)
    layers = -(-shape.layer_count // engine.pipeline_parallel)
    return bands.spread(
        lambda value: graphs * layers * value("graph_bytes_per_layer"),
        f"{graphs} graphs of {layers} layers",
        engine.version,
    )


def _count(engine: EngineConfig, compute_capability: tuple[int, int]) -> int:
    """Return how many graphs are captured.

    Steps with prefill replay pieces between the attention layers, pure decode steps a whole.
    """
    sizes = capture_sizes(engine, compute_capability)
    per_sequence = 1 + engine.speculated_tokens
    decode_only = sum(size <= engine.max_num_seqs * per_sequence for size in sizes)
    if engine.graph_mode == "FULL_DECODE_ONLY":
        return decode_only
    if engine.graph_mode in ("PIECEWISE", "FULL"):
        return len(sizes)
    return len(sizes) + decode_only


def capture_sizes(engine: EngineConfig, compute_capability: tuple[int, int]) -> tuple[int, ...]:
    """Return the batch sizes, in tokens, that the engine captures (0.32)."""
    tokens = engine.max_num_batched_tokens
    if engine.capture_sizes is not None:
        return tuple(size for size in engine.capture_sizes if size <= tokens)
    if engine.largest_capture_size is not None:
        return _ladder(min(engine.largest_capture_size, tokens))
    per_sequence = 1 + engine.speculated_tokens
    ceiling = 1024 if compute_capability[0] == 10 else 512
    largest = min(2 * engine.max_num_seqs * per_sequence, ceiling, engine.max_num_batched_tokens)
    return _ladder(largest)


def _ladder(largest: int) -> tuple[int, ...]:
    ladder = (1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16))
    return tuple(size for size in ladder if size <= largest)
