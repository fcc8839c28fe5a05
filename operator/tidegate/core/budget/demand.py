"""What a layer asks of its attention backend, and what a backend is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from tidegate.core.budget.kernel_blocks import KernelBlocks

EVERY_16 = KernelBlocks(step=16)


@dataclass(frozen=True)
class Demand:
    """What a layer asks of its backend, on one GPU.

    `heads` are those of one GPU. `widest_head_dim` is of the model's widest heads. `needs_fa4`
    says that the engine runs all of this model's layers with FlashAttention 4.
    """

    head_dim: int
    model_dtype: str
    kv_cache_dtype: str
    compute_capability: tuple[int, int]
    value_head_dim: int | None = None
    widest_head_dim: int | None = None
    heads: int | None = None
    has_window: bool = False
    has_sinks: bool = False
    images_both_ways: bool = False
    caps_scores: bool = False
    needs_fa4: bool = False
    is_latent: bool = False
    is_sparse: bool = False
    nope_dim: int | None = None
    context_parallel: int = 1

    @property
    def major(self) -> int:
        """The major number of the compute capability."""
        return self.compute_capability[0]

    @property
    def of_model(self) -> Self:
        """The demand with the model's widest heads, by which the engine asks for block sizes."""
        return replace(self, head_dim=self.widest_head_dim or self.head_dim)

    @property
    def is_quantised(self) -> bool:
        """Tell whether the KV cache is not in 16 bits."""
        return self.kv_cache_dtype not in ("auto", "float16", "bfloat16")


@dataclass(frozen=True)
class Backend:
    """A backend: the KV dtypes it has, what else it demands, and its block sizes.

    `rejects` returns why it cannot serve a demand, or None. `blocks` are the sizes its kernels
    take for a layer; `preferred`, where the engine is left to choose, is its wish.
    """

    name: str
    kv_cache_dtypes: tuple[str, ...]
    rejects: Callable[[Demand], str | None]
    blocks: Callable[[Demand], KernelBlocks] = lambda demand: EVERY_16
    has_context_parallel: bool = False

    def fault(self, demand: Demand, block_size: int | None) -> str | None:
        """Return why this backend cannot serve the demand, or None."""
        if demand.kv_cache_dtype not in self.kv_cache_dtypes:
            return f"has no KV cache dtype {demand.kv_cache_dtype}"
        blocks = self.blocks(demand.of_model)
        if block_size is not None and not blocks.takes(block_size):
            return f"needs blocks of a multiple of {blocks.smallest} tokens"
        if demand.context_parallel > 1 and not self.has_context_parallel:
            return "has no decode context parallel"
        return self.rejects(demand)
