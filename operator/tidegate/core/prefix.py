"""A prefix that all prompts share: with prefix caching its KV is in the pool once, not per request.

Only whole blocks are shared, and only of layers that keep every token: a window lets go of the
prefix, and a recurrent state is each request's own.
"""

from dataclasses import replace

from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.groups import Group
from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.sizing import Sizing, Workload

_FAR = 2**20
"""Blocks after which every window and chunk is full, whatever its size."""


def shared_blocks(pool: KVPool, shared_tokens: int) -> int:
    """Return the blocks that hold a shared prefix; each request's own ones begin after them."""
    return sum(group.blocks_of(shared_tokens + 1) - 1 for group in pool.groups if _keeps_all(group))


def requests_of(
    pool: KVPool, prompt_tokens: int, output_tokens: int, shared_tokens: int = 0
) -> int:
    """Return how many requests the pool holds at once when their prompts begin alike."""
    shared = shared_blocks(pool, shared_tokens)
    whole = sum(group.blocks_of(max(1, prompt_tokens + output_tokens)) for group in pool.groups)
    own = max(1, whole - shared)
    return max(0, pool.num_blocks - shared) // own


def counted_once(
    sized: Sizing, engine: EngineConfig, workload: Workload | None, shared_tokens: int | None
) -> Sizing:
    """Return the sizing with the declared shared prefix counted once, where the engine keeps it."""
    if workload is None or not shared_tokens or not engine.prefix_caching:
        return sized
    prompt, output = workload.prompt_tokens_p95, workload.output_tokens_p95
    requests = requests_of(sized.pool, prompt, output, shared_tokens)
    blocks = shared_blocks(sized.pool, shared_tokens)
    sentence = (
        f"the {shared_tokens:,} tokens that every prompt begins with are kept once, in {blocks:,} "
        f"blocks: {requests:,} requests of the p95 workload fit at once"
    )
    return replace(sized, requests_at_p95=requests, because=(*sized.because, sentence))


def _keeps_all(group: Group) -> bool:
    """Tell whether a request that is twice as long takes twice the blocks, however long it is."""
    far = _FAR * group.block_size
    return group.blocks_of(2 * far) == 2 * group.blocks_of(far)
