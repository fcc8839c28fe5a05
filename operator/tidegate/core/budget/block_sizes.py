"""The block size of a model, in tokens, after the engine's alignments.

One block size holds for all attention that is not windowed. It starts from what the backends like
best, and grows until a block of attention covers a recurrent state, and a quantised page covers
the page of a layer that keeps 16 bits.
"""

import math
from dataclasses import dataclass

from tidegate.core.budget import backends, kv_dtypes, latent_backends
from tidegate.core.budget.cache_choice import Choice, Choices
from tidegate.core.budget.demand import Backend, Demand
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.mixers import LatentAttention

# Tokens that decode kernels of latent attention want the blocks of hybrid models to hold.
_LATENT_BESIDE_STATES = 128


@dataclass(frozen=True)
class BlockSizes:
    """The block in tokens, and the bytes to which pages of some layers are padded.

    `kept_page_bytes` is of windowed layers that keep the model's dtype, `state_page_bytes` of
    recurrent layers; None where nothing is padded.
    """

    tokens: int
    kept_page_bytes: int | None = None
    state_page_bytes: int | None = None


def choose(
    choices: Choices, engine: EngineConfig, state_bytes: int, state_alignment: int
) -> BlockSizes:
    """Return the block size.

    Args:
        choices: The backends and dtypes of the model's attention.
        engine: The engine's flags.
        state_bytes: The bytes of the largest recurrent state on a GPU, 0 if there is none.
        state_alignment: Tokens that a block must be a multiple of so that states can be kept at
            the ends of blocks.

    Raises:
        Refused: the backends share no block size.
    """
    first = choices.first
    if first is None:
        return BlockSizes(engine.block_size or backends.DEFAULT_BLOCK_SIZE)
    served = _served(choices)
    sizes = BlockSizes(engine.block_size or backends.preferred_block_size(served))
    if state_bytes:
        sizes = _covering_a_state(sizes, choices, served, engine, state_bytes, state_alignment)
    if choices.kept:
        sizes = _covering_a_kept_page(sizes, choices, first, engine)
    return sizes


def _served(choices: Choices) -> list[tuple[Backend, Demand]]:
    """Return the backends in use with a demand of each; an indexer counts as one."""
    served: list[tuple[Backend, Demand]] = []
    for choice in choices.by_mixer.values():
        if isinstance(choice.mixer, LatentAttention) and choice.mixer.indexer:
            served.append((latent_backends.INDEXER, choice.demand))
        served.append((choice.backend, choice.demand))
    return served


def _covering_a_state(
    sizes: BlockSizes,
    choices: Choices,
    served: list[tuple[Backend, Demand]],
    engine: EngineConfig,
    state_bytes: int,
    state_alignment: int,
) -> BlockSizes:
    """Grow the block until its page covers a state, and pad states to that page."""
    backend, demand = served[0]
    step = max(backend.blocks(demand.of_model).smallest, sizes.tokens)
    if demand.is_latent:
        step = max(step, _LATENT_BESIDE_STATES)
    step = math.lcm(step, state_alignment)
    every = math.lcm(*(one.blocks(asked.of_model).smallest for one, asked in served))
    token_bytes = _token_bytes_beside_states(choices, engine)
    tokens = step * _ceil(state_bytes, step * token_bytes)
    tokens = max(sizes.tokens, every * _ceil(tokens, every))
    page_bytes = tokens * token_bytes
    return BlockSizes(tokens, None, page_bytes if page_bytes != state_bytes else None)


def _token_bytes_beside_states(choices: Choices, engine: EngineConfig) -> int:
    """Return the bytes of a token by which the engine measures a block against a state."""
    first = next(iter(choices.by_mixer.values()))
    size = engine.tensor_parallel
    quantised_bytes = first.token_bytes(size, choices.kv_cache_dtype)
    if choices.kv_cache_dtype in kv_dtypes.TURBOQUANT and choices.kept:
        # Pages of kept layers are no multiple of the packed ones; both must fit the state's.
        return math.lcm(quantised_bytes, first.token_bytes(size, "auto"))
    return quantised_bytes


def _covering_a_kept_page(
    sizes: BlockSizes, choices: Choices, first: Choice, engine: EngineConfig
) -> BlockSizes:
    """Grow the block so that a quantised page covers the smallest page of a layer that is kept.

    The engine measures the quantised page with the backend of the first layer; where that is a
    kept one, its backend does not know the packing, and one byte per element counts.
    """
    dtype = first.demand.model_dtype
    kept_bytes = first.token_bytes(engine.tensor_parallel, "auto")
    if backends.packs(first.backend, choices.kv_cache_dtype) or not kv_dtypes.is_packed(
        choices.kv_cache_dtype
    ):
        quantised_bytes = first.token_bytes(engine.tensor_parallel, choices.kv_cache_dtype)
    else:
        stored = kv_dtypes.storage_bytes(choices.kv_cache_dtype, dtype)
        quantised_bytes = kept_bytes * stored // kv_dtypes.storage_bytes("auto", dtype)
    if quantised_bytes >= kept_bytes:
        return sizes
    smallest = first.backend.blocks(first.demand.of_model).smallest
    step = max(smallest, sizes.tokens)
    required_bytes = max(kept_bytes * smallest, sizes.state_page_bytes or 0)
    tokens = max(sizes.tokens, step * _ceil(required_bytes, step * quantised_bytes))
    shared_page_bytes = tokens * quantised_bytes
    return BlockSizes(
        tokens, shared_page_bytes, shared_page_bytes if sizes.state_page_bytes else None
    )


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
