"""What CUDA, its libraries and the engine's own tables take, beside weights and activations."""

import math

from tidegate.api.figures import Figure
from tidegate.core.budget import bands
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape


def outside(engine: EngineConfig) -> Figure:
    """Return what a GPU loses before the engine looks at its memory for the first time.

    The CUDA context and the buffers of collectives. The engine does not count it, so it has to
    lie in the share of the card that the engine does not ask for.
    """
    peers = 0 if engine.tensor_parallel == 1 else 1
    return bands.spread(
        lambda value: value("context_bytes") + peers * value("collectives_bytes"),
        "CUDA context and NCCL, before the engine's first look",
        engine.version,
    )


def inside(shape: ModelShape, engine: EngineConfig) -> Figure:
    """Return what the engine's own accounting finds beside weights and activations."""
    doublings = math.log2(engine.tensor_parallel)
    logits = engine.max_num_seqs * (shape.vocab_size or 0)
    kept = logits if bands.keeps_sampler_state(engine.version) else 0
    return bands.spread(
        lambda value: (
            value("non_torch_bytes")
            + doublings * value("non_torch_per_doubling")
            + kept * value("sampler_state_bytes_per_logit")
        ),
        "libraries, collectives and tables per sequence",
        engine.version,
    )
