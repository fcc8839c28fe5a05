"""The cache of recurrent layers: how many states a request holds, and what one of them takes."""

from tidegate.api.reasons import Reason
from tidegate.core.budget import bands
from tidegate.core.budget.block_sizes import BlockSizes
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.kv_spec import KVSpec
from tidegate.core.budget.reach import States
from tidegate.core.budget.recurrent import DeltaAttention, GatedDelta, Mamba2, Recurrent
from tidegate.core.budget.shape import ModelShape, element_bytes
from tidegate.errors import Refused

_DTYPES = ("auto", "float16", "bfloat16", "float32")
# Blocks of a gated delta net are multiples of it where its prefill kernel hands out states.
_EXPORT_STEP = 64
_BLOCK_STEP = 8  # tokens, of the convolution's kernel


def check(shape: ModelShape, engine: EngineConfig) -> None:
    """Check the flags about recurrent state as the engine does.

    Raises:
        Refused: FLAG_UNSUPPORTED names the flag and what would do.
    """
    for flag, dtype in (
        ("mamba-cache-dtype", engine.mamba_cache_dtype),
        ("mamba-ssm-cache-dtype", engine.mamba_ssm_cache_dtype),
    ):
        if dtype not in _DTYPES:
            _refuse(f"{flag} {dtype}: use one of {', '.join(_DTYPES)}")
    size = engine.mamba_block_size
    if size is not None:
        if size < 1 or size % _BLOCK_STEP:
            _refuse(f"mamba-block-size {size}: use a multiple of {_BLOCK_STEP}")
        if not engine.prefix_caching and size != engine.max_model_len:
            _refuse(f"mamba-block-size {size} needs prefix caching; turn it on or leave it out")
    if shape.recurrent and engine.prefix_caching and not engine.enable_chunked_prefill:
        _refuse(
            "prefix caching of recurrent layers needs chunked prefill; turn it on, or prefix "
            "caching off"
        )


def largest_bytes(shape: ModelShape, engine: EngineConfig, model_dtype: str) -> int:
    """Return the bytes of the model's largest state on each GPU, 0 if it has none."""
    return max(
        (_state_bytes(mixer, shape, engine, model_dtype) for mixer in shape.recurrent), default=0
    )


def block_alignment(
    shape: ModelShape, engine: EngineConfig, compute_capability: tuple[int, int]
) -> int:
    """Return the tokens that blocks must be a multiple of to keep states at their ends."""
    if not engine.prefix_caching or not shape.recurrent:
        return 1
    if all(_is_exported(mixer, engine, compute_capability) for mixer in shape.recurrent):
        return _EXPORT_STEP
    return 1


def spec(
    mixer: Recurrent,
    shape: ModelShape,
    engine: EngineConfig,
    compute_capability: tuple[int, int],
    model_dtype: str,
    sizes: BlockSizes,
) -> KVSpec:
    """Return the cache of one recurrent mixer: a block of it is one state."""
    dense_bytes = _state_bytes(mixer, shape, engine, model_dtype)
    if engine.prefix_caching:
        # The state of the last block, the one that is written, and one to keep in the midst.
        kept = (
            isinstance(mixer, Mamba2)
            or _is_exported(mixer, engine, compute_capability)
            or _is_handed_out(mixer, model_dtype, compute_capability)
        )
        count, block_size = 2 + kept, sizes.tokens
    else:
        count, block_size = 1, engine.mamba_block_size or engine.max_model_len
    reach = States(count + engine.speculated_tokens)
    page_bytes = sizes.state_page_bytes or dense_bytes
    return KVSpec(reach, block_size, page_bytes, dense_bytes, mixer)


def _state_bytes(
    mixer: Recurrent, shape: ModelShape, engine: EngineConfig, model_dtype: str
) -> int:
    size = mixer.state(engine.tensor_parallel, engine.speculated_tokens)
    window_dtype = _first_told(engine.mamba_cache_dtype, model_dtype)
    recurrent_dtype = _first_told(engine.mamba_ssm_cache_dtype, shape.state_dtype, window_dtype)
    return size.window * element_bytes(window_dtype) + size.recurrent * element_bytes(
        recurrent_dtype
    )


def _first_told(*dtypes: str | None) -> str:
    return next(dtype for dtype in dtypes if dtype not in (None, "auto"))


def _is_exported(
    mixer: Recurrent, engine: EngineConfig, compute_capability: tuple[int, int]
) -> bool:
    """Tell whether the prefill kernel hands out states in the midst of a prefill (since 0.33).

    It is FlashInfer's, on Hopper and, with keys of 128 and CUDA 13, on Blackwell.
    """
    if not isinstance(mixer, GatedDelta) or not mixer.exports_states:
        return False
    if not bands.exports_recurrent_states(engine.version):
        return False
    is_blackwell = compute_capability[0] in (10, 12) and mixer.key_dim == 128
    return compute_capability == (9, 0) or is_blackwell


def _is_handed_out(mixer: Recurrent, model_dtype: str, compute_capability: tuple[int, int]) -> bool:
    """Tell whether a delta attention is served by FlashKDA, which hands out states midway."""
    if not isinstance(mixer, DeltaAttention) or not mixer.hands_out_states:
        return False
    return compute_capability[0] in (9, 10, 12) and model_dtype == "bfloat16"


def _refuse(message: str) -> None:
    raise Refused(Reason.FLAG_UNSUPPORTED, message, "spec.engine.extraArgs")
