"""Does a prefill/decode split pay: the time to move a prompt's KV beside the time to compute it."""

from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.shape import ModelShape
from tidegate.facts.gpus import Gpu


def transfer_seconds(pool: KVPool, tokens: int, bandwidth_bytes_per_second: int) -> float:
    """Return the seconds to move the KV of a prompt of `tokens`, in whole blocks, per GPU."""
    raise NotImplementedError


def prefill_seconds(
    shape: ModelShape, tokens: int, gpu: Gpu, tensor_parallel: int
) -> tuple[float, float] | None:
    """Return the least and the most seconds to compute the prompt; None without the GPU's rate."""
    raise NotImplementedError
