"""The KV pool: blocks, tokens and requests from the bytes that are left for KV."""

from dataclasses import dataclass

from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape


@dataclass(frozen=True)
class KVPool:
    """The pool of KV blocks of one engine, as the engine plans it.

    `bytes_per_token` is of the fullest GPU. `bytes_per_block` and `needed_bytes` count one GPU:
    the first has one entry for each pipeline rank, the second is of the rank that needs most.
    `num_blocks` includes the engine's null block. `cache_size_tokens` is what the engine logs:
    concurrency times max_model_len. `max_model_len_that_fits` of 2**24 means without limit.
    """

    bytes_per_token: int
    block_size: int
    bytes_per_block: tuple[int, ...]
    num_blocks: int
    blocks_per_request: int
    blocks_per_request_by_group: tuple[int, ...]
    max_concurrency: float
    cache_size_tokens: int
    needed_bytes: int
    estimated_max_model_len: int
    max_model_len_that_fits: int
    fits: bool


def kv_pool(
    shape: ModelShape,
    engine: EngineConfig,
    available_kv_bytes: int,
    compute_capability: tuple[int, int],
) -> KVPool:
    """Divide `available_kv_bytes` of each GPU into blocks."""
    raise NotImplementedError


def requests_of(pool: KVPool, prompt_tokens: int, output_tokens: int) -> int:
    """Return how many requests of that size the pool holds at once."""
    raise NotImplementedError
