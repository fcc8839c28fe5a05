"""CUDA graphs: one is captured for each batch size of a fixed ladder."""

from tidegate.api.figures import Figure, exact
from tidegate.core.budget import bands
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape


def of(shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]) -> Figure:
    """Return the bytes that captured graphs take on each GPU."""
    if engine.enforce_eager:
        return exact(0, "enforceEager")
    sizes = capture_sizes(engine, compute_capability)
    # Steps with prefill replay pieces between the attention layers, pure decode steps a whole.
    decode_only = sum(size <= engine.max_num_seqs for size in sizes)
    graphs = len(sizes) + decode_only
    layers = -(-shape.layer_count // engine.pipeline_parallel)
    return bands.spread(
        lambda value: graphs * layers * value("graph_bytes_per_layer"),
        f"{graphs} graphs of {layers} layers",
        engine.version,
    )


def capture_sizes(engine: EngineConfig, compute_capability: tuple[int, int]) -> tuple[int, ...]:
    """Return the batch sizes, in tokens, that the engine captures by default (0.32)."""
    per_sequence = 1 + (engine.speculative.tokens if engine.speculative else 0)
    ceiling = 1024 if compute_capability[0] == 10 else 512
    largest = min(2 * engine.max_num_seqs * per_sequence, ceiling, engine.max_num_batched_tokens)
    ladder = [1, 2, 4, *range(8, 256, 8), *range(256, ceiling + 1, 16)]
    return tuple(size for size in ladder if size <= largest)
