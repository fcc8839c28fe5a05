"""The caches of a model's layers in one engine: what each keeps, in the order of the layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from tidegate.core.budget import (
    block_sizes,
    cache_choice,
    config_keys,
    draft,
    kv_dtypes,
    kv_spec,
    model_dtypes,
    parallelism,
    shared_blocks,
    states,
)
from tidegate.core.budget.block_sizes import BlockSizes
from tidegate.core.budget.cache_choice import Choice, Choices, Part
from tidegate.core.budget.draft import Draft
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.kv_spec import KVSpec
from tidegate.core.budget.mixers import (
    Attention,
    AttentionMixer,
    CompressedAttention,
    Indexer,
    LatentAttention,
    Mixer,
)
from tidegate.core.budget.reach import AllTokens, Chunk, Reach, States, Window
from tidegate.core.budget.shape import ModelShape

# A compressed cache: a token in the window, and a state that stands for several, take these bytes.
_COMPRESSED_BYTES = 584
_COMPRESSED_PAGE_MULTIPLE = 576
_COMPRESSED_WINDOW_BLOCK = 64
_PARTIAL_BLOCKS = {4: 4, 128: 8}  # tokens in a block of sums that are not yet a state, by ratio
_INDEX_KEY_BYTES = 2
_PARTIAL_BYTES = 4  # sums are kept in float32


@dataclass(frozen=True)
class KVLayers:
    """Every cache of the model and its draft, and the pipeline stage that holds it.

    `are_packed` if pages of different sizes lie side by side in a block.
    """

    specs: tuple[KVSpec, ...]
    stage_of: tuple[int, ...]
    are_packed: bool
    is_chunked: bool


@dataclass(frozen=True)
class _Build:
    """What all layers share while their caches are worked out."""

    shape: ModelShape
    engine: EngineConfig
    capability: tuple[int, int]
    model_dtype: str
    retained: int
    choices: Choices
    sizes: BlockSizes


def build(shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]) -> KVLayers:
    """Return the caches of all layers; a draft's are on the last pipeline stage.

    Raises:
        Refused: the engine cannot run this combination.
    """
    drafted = draft.read(shape, engine)
    if drafted is not None and drafted.shape is not None:
        parallelism.check_draft(shape, drafted.shape, engine)
    layers = [layer.mixers for layer in shape.layers]
    layers += [layer.mixers for layer in drafted.layers] if drafted else []
    built = _prepared(shape, engine, compute_capability, drafted)
    by_layer: dict[tuple[tuple[Mixer, ...], Part], list[KVSpec]] = {}
    specs: list[KVSpec] = []
    stage_of: list[int] = []
    stages = _stage_of_layer(shape, engine)
    for index, mixers in enumerate(layers):
        key = (mixers, built.choices.part(index))
        if key not in by_layer:
            by_layer[key] = [spec for mixer in mixers for spec in _specs(mixer, key[1], built)]
        specs += by_layer[key]
        stage = stages[index] if index < len(stages) else engine.pipeline_parallel - 1
        stage_of += [stage] * len(by_layer[key])
    if shape.model_type in shared_blocks.MODEL_TYPES:  # the blocks are made before the layers
        specs.sort(key=lambda spec: isinstance(spec.reach, States))
    if not specs:
        config_keys.not_sized(["num_hidden_layers"], "no layer keeps anything of its tokens")
    mixed = {mixer for mixers in by_layer for mixer in mixers[0]}
    return KVLayers(
        specs=tuple(specs),
        stage_of=tuple(stage_of),
        are_packed=any(isinstance(mixer, CompressedAttention) for mixer in mixed),
        is_chunked=any(isinstance(mixer, Attention) and mixer.chunk for mixer in mixed),
    )


def _prepared(
    shape: ModelShape,
    engine: EngineConfig,
    capability: tuple[int, int],
    drafted: Draft | None,
) -> _Build:
    dtype = model_dtypes.of(shape, engine, capability)
    if drafted is not None and drafted.shape is not None:
        model_dtypes.require_stable(drafted.shape, dtype, "bfloat16, or another draft")
    mixers = [mixer for layer in drafted.layers for mixer in layer.mixers] if drafted else []
    choices = cache_choice.make(shape, engine, dtype, capability, mixers)
    states.check(shape, engine)
    sizes = block_sizes.choose(
        choices,
        engine,
        states.largest_bytes(shape, engine, dtype),
        states.block_alignment(shape, engine, capability),
    )
    retained = 0 if drafted is None else drafted.retained_tokens
    return _Build(shape, engine, capability, dtype, retained, choices, sizes)


def _stage_of_layer(shape: ModelShape, engine: EngineConfig) -> list[int]:
    stages = parallelism.stages(shape.layer_count, engine.pipeline_parallel)
    return [number for number, stage in enumerate(stages) for _ in stage]


def _specs(mixer: Mixer, part: Part, built: _Build) -> Sequence[KVSpec]:
    """Return the caches that one mixer keeps."""
    if not isinstance(mixer, AttentionMixer):
        return [
            states.spec(
                mixer, built.shape, built.engine, built.capability, built.model_dtype, built.sizes
            )
        ]
    if cache_choice.shares_kv(mixer):
        return []
    choice = built.choices.by_mixer[mixer, part]
    if isinstance(mixer, CompressedAttention):
        return _compressed(mixer, built)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, choice, built)
    if isinstance(mixer, Attention):
        attention = _attention(mixer, choice, built)
        return [attention] if mixer.indexer is None else [_index(mixer.indexer, built), attention]
    assert_never(mixer)


def _attention(mixer: Attention, choice: Choice, built: _Build) -> KVSpec:
    engine = built.engine
    token_bytes = choice.token_bytes(engine.tensor_parallel)
    heads = parallelism.kv_heads_per_gpu(mixer.kv_heads, engine.tensor_parallel)
    content = (heads, mixer.head_dim, mixer.value_head_dim, choice.stored_dtype)
    reach = _reach(mixer, built)
    if mixer.window is None:
        return kv_spec.attention(reach, built.sizes.tokens, token_bytes, content)
    # A window has a block of its own: the largest that its kernels take within the page.
    shared_bytes = built.sizes.kept_page_bytes
    page_bytes = shared_bytes or token_bytes * built.sizes.tokens
    block_size = choice.backend.blocks(choice.demand).largest_within(page_bytes // token_bytes)
    spec = kv_spec.attention(reach, block_size, token_bytes, content)
    return spec if shared_bytes is None else spec.padded(max(shared_bytes, spec.page_bytes))


def _index(indexer: Indexer, built: _Build) -> KVSpec:
    """Return the keys, in 16 bits, by which blocks of tokens are picked: whole on every GPU."""
    reach = AllTokens(built.engine.decode_context_parallel)
    key_bytes = _INDEX_KEY_BYTES * indexer.head_dim
    return kv_spec.attention(reach, built.sizes.tokens, key_bytes, ("index",), is_latent=True)


def _reach(mixer: Attention, built: _Build) -> Reach:
    engine = built.engine
    if mixer.window is not None:
        return Window(mixer.window, engine.in_flight_tokens, built.retained)
    if mixer.chunk is not None:
        return Chunk(mixer.chunk, engine.in_flight_tokens)
    return AllTokens(engine.decode_context_parallel)


def _latent(mixer: LatentAttention, choice: Choice, built: _Build) -> list[KVSpec]:
    """Return the latent cache, after the indexer's where the layer has one."""
    reach, tokens = AllTokens(built.engine.decode_context_parallel), built.sizes.tokens
    token_bytes = choice.token_bytes(built.engine.tensor_parallel)
    content = (mixer.cached_dim, choice.stored_dtype)
    latent = kv_spec.attention(reach, tokens, token_bytes, content, is_latent=True)
    if mixer.indexer is None:
        return [latent]
    key_bytes = kv_dtypes.indexer_bytes(mixer.indexer.head_dim)
    indexed = kv_spec.attention(reach, tokens, key_bytes, ("indexer",), is_latent=True)
    return [indexed, latent]


def _compressed(mixer: CompressedAttention, built: _Build) -> list[KVSpec]:
    """Return the caches of a compressed layer in the order in which the engine registers them."""
    window = _packed_window(
        built, mixer.window, _COMPRESSED_WINDOW_BLOCK, _COMPRESSED_BYTES, "window"
    )
    if mixer.ratio == 1:
        return [window]
    found = []
    if mixer.indexer is not None:
        key_bytes = kv_dtypes.indexer_bytes(mixer.indexer.head_dim)
        found.append(_packed_states(built, mixer.ratio, key_bytes, "indexer"))
        found.append(_partial_sums(built, mixer.ratio, mixer.indexer.head_dim, "indexer"))
    found.append(window)
    found.append(_packed_states(built, mixer.ratio, _COMPRESSED_BYTES, "attention"))
    found.append(_partial_sums(built, mixer.ratio, mixer.head_dim, "attention"))
    return found


def _packed_states(built: _Build, ratio: int, state_bytes: int, what: str) -> KVSpec:
    """Return the cache of states that stand for `ratio` tokens each."""
    tokens = built.sizes.tokens
    page_bytes = _packed_page(tokens // ratio * state_bytes)
    reach = AllTokens(built.engine.decode_context_parallel)
    return KVSpec(reach, tokens, page_bytes, page_bytes, (what, ratio), is_latent=True)


def _partial_sums(built: _Build, ratio: int, head_dim: int, what: str) -> KVSpec:
    """Return the cache of sums that become a state: of keys and of scores.

    States of the smallest ratio overlap, so twice as many tokens and sums are kept.
    """
    overlap = 2 if ratio == min(_PARTIAL_BLOCKS) else 1
    token_bytes = 2 * overlap * head_dim * _PARTIAL_BYTES
    return _packed_window(
        built, overlap * ratio, _PARTIAL_BLOCKS[ratio], token_bytes, ("sums", what, ratio)
    )


def _packed_window(
    built: _Build, window: int, block_size: int, token_bytes: int, content: object
) -> KVSpec:
    page_bytes = _packed_page(block_size * token_bytes)
    reach = Window(window, built.engine.in_flight_tokens, built.retained)
    return KVSpec(reach, block_size, page_bytes, page_bytes, content, is_latent=True)


def _packed_page(page_bytes: int) -> int:
    return -(-page_bytes // _COMPRESSED_PAGE_MULTIPLE) * _COMPRESSED_PAGE_MULTIPLE
