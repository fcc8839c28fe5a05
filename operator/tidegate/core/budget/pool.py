"""The KV pool: blocks, tokens and requests from the bytes that are left for KV.

Equal to vLLM's own planner, integer for integer, for the models that it covers (0.32, 0.33).
"""

from dataclasses import dataclass, field

from tidegate.api.reasons import Reason
from tidegate.core.budget import draft, grouping, kv_layers, parallelism
from tidegate.core.budget import groups as kv_groups
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.groups import Group
from tidegate.core.budget.reach import AllTokens, States
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused


@dataclass(frozen=True)
class KVPool:
    """The pool of KV blocks of one engine, as the engine plans it.

    `bytes_per_token` is of the fullest GPU. `bytes_per_block` and `needed_bytes` count one GPU:
    the first has one entry for each pipeline stage, the second is of the stage that needs most.
    `num_blocks` includes the engine's null block. `cache_size_tokens` is what the engine logs:
    concurrency times max_model_len. `max_model_len_that_fits` is of the memory, whatever
    number of blocks the user fixed; 2**24 means without limit.
    `tensor_parallel` is the number of GPUs in each stage.
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
    tensor_parallel: int = 1
    groups: tuple[Group, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class KVLayout:
    """How an engine lays out its KV blocks: all of a pool that does not depend on memory."""

    groups: tuple[Group, ...]
    bytes_per_block: tuple[int, ...]
    tensor_parallel: int
    max_model_len: int
    num_blocks_override: int | None

    def blocks_of(self, tokens: int) -> int:
        """Return the blocks that a request of `tokens` takes, of all groups together."""
        return kv_groups.blocks_of(self.groups, tokens)

    @property
    def needed_bytes(self) -> int:
        """Bytes of one request of max_model_len on the GPU that needs most."""
        return max(self.bytes_per_block) * self.blocks_of(self.max_model_len)

    @property
    def least_bytes(self) -> int:
        """The smallest pool that serves one request of max_model_len, null block included."""
        return self.needed_bytes + max(self.bytes_per_block)


def layout(
    shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]
) -> KVLayout:
    """Return how the engine lays out KV blocks.

    Raises:
        Refused: the engine cannot run this combination of model, flags and GPU.
    """
    if not 1 <= engine.max_model_len <= kv_groups.LONGEST:
        raise Refused(
            Reason.LENGTH_INVALID,
            f"maxModelLen must be from 1 to {kv_groups.LONGEST}, not {engine.max_model_len}",
            "spec.engine.maxModelLen",
        )
    parallelism.check(shape, engine)
    layers = kv_layers.build(shape, engine, compute_capability)
    # Chunks and a draft that reads hidden states do not go with the hybrid manager.
    hybrid = engine.hybrid_kv_cache and not (
        layers.is_chunked and draft.reads_hidden_states(engine)
    )
    specs, grouped = grouping.group(
        layers.specs,
        packs=layers.are_packed,
        hybrid=hybrid,
        context_parallel=engine.decode_context_parallel,
    )
    groups = kv_groups.build(specs, layers.stage_of, engine.pipeline_parallel, grouped)
    return KVLayout(
        groups=groups,
        bytes_per_block=kv_groups.bytes_per_block(groups),
        tensor_parallel=engine.tensor_parallel,
        max_model_len=engine.max_model_len,
        num_blocks_override=engine.num_gpu_blocks_override,
    )


def kv_pool(
    shape: ModelShape,
    engine: EngineConfig,
    available_kv_bytes: int,
    compute_capability: tuple[int, int],
) -> KVPool:
    """Divide `available_kv_bytes` of each GPU into blocks.

    Raises:
        Refused: the engine cannot run this combination of model, flags and GPU.
    """
    return pool_of(layout(shape, engine, compute_capability), available_kv_bytes)


def pool_of(laid_out: KVLayout, available_kv_bytes: int) -> KVPool:
    """Divide `available_kv_bytes` of each GPU into blocks that are laid out in this way."""
    available = max(0, available_kv_bytes)
    groups, length = laid_out.groups, laid_out.max_model_len
    from_memory = available // max(laid_out.bytes_per_block)
    num_blocks = (
        from_memory if laid_out.num_blocks_override is None else laid_out.num_blocks_override
    )
    by_group = tuple(group.blocks_of(length) for group in groups)
    concurrency = num_blocks / sum(by_group)
    usable_blocks = max(0, from_memory - 1)  # the engine keeps one block, the null block
    # it checks one request against the override, where there is one
    checked_blocks = max(0, min(from_memory, num_blocks) - 1)
    block_size = min(group.block_size for group in groups)
    return KVPool(
        bytes_per_token=_bytes_per_token(laid_out),
        block_size=block_size,
        bytes_per_block=laid_out.bytes_per_block,
        num_blocks=num_blocks,
        blocks_per_request=sum(by_group),
        blocks_per_request_by_group=by_group,
        max_concurrency=concurrency,
        cache_size_tokens=int(concurrency * length),
        needed_bytes=laid_out.needed_bytes,
        estimated_max_model_len=kv_groups.longest(groups, checked_blocks, length),
        max_model_len_that_fits=kv_groups.longest(groups, usable_blocks, kv_groups.LONGEST),
        fits=sum(by_group) <= checked_blocks,
        tensor_parallel=laid_out.tensor_parallel,
        groups=groups,
    )


def requests_of(pool: KVPool, prompt_tokens: int, output_tokens: int) -> int:
    """Return how many requests of that size the pool holds at once, in whole blocks.

    Counted as the engine counts its concurrency: out of all blocks.
    """
    blocks = kv_groups.blocks_of(pool.groups, max(1, prompt_tokens + output_tokens))
    return pool.num_blocks // blocks


def _bytes_per_token(laid_out: KVLayout) -> int:
    """Return what one more token of a long request takes on the fullest GPU.

    Groups that hold all tokens count; where none does, those with a window, while it fills.
    """
    growing = [group for group in laid_out.groups if isinstance(group.reach, AllTokens)]
    growing = growing or [g for g in laid_out.groups if not isinstance(g.reach, States)]
    return sum(max(laid_out.bytes_per_block) // group.block_size for group in growing)
