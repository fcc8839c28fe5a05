"""What the engine takes where a flag is absent: it depends on the GPU and on the model."""

from tidegate.core.budget.shape import ModelShape
from tidegate.facts.gpus import Gpu


def max_num_batched_tokens(version: str, gpu: Gpu) -> int:
    """Return the engine server's default for --max-num-batched-tokens on this GPU."""
    raise NotImplementedError


def max_num_seqs(version: str, gpu: Gpu) -> int:
    """Return the engine's default for --max-num-seqs on this GPU."""
    raise NotImplementedError


def max_model_len(shape: ModelShape) -> int:
    """Return the longest sequence that the model's config allows."""
    return shape.max_model_len
