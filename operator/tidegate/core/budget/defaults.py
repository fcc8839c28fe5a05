"""What the engine takes where a flag is absent: it depends on the GPU and on the model."""

from tidegate.core.budget.shape import ModelShape
from tidegate.facts.gpus import Gpu

_GIB = 2**30


def max_num_batched_tokens(version: str, gpu: Gpu) -> int:
    """Return the engine server's default for --max-num-batched-tokens on this GPU (0.32, 0.33)."""
    if _is_huge(gpu):
        return 16384
    return 8192 if _is_large(gpu) else 2048


def max_num_seqs(version: str, gpu: Gpu) -> int:
    """Return the engine's default for --max-num-seqs on this GPU (0.32, 0.33)."""
    return 1024 if _is_huge(gpu) or _is_large(gpu) else 256


def max_model_len(shape: ModelShape) -> int:
    """Return the longest sequence that the model's config allows, rope scaling included."""
    return shape.max_model_len


def _is_huge(gpu: Gpu) -> bool:
    return gpu.cuda_total.bytes >= 160 * _GIB


def _is_large(gpu: Gpu) -> bool:
    """Tell large cards apart; the engine knows the A100 by its name and leaves it out."""
    return gpu.cuda_total.bytes >= 70 * _GIB and "a100" not in gpu.product.lower()
