"""Layers whose cache keeps the model's dtype, whatever the others have."""

from collections.abc import Sequence

from tidegate.api.reasons import Reason
from tidegate.core.budget import kv_dtypes
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.mixers import Attention, Mixer
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused

_BOUNDARY_LAYERS = 2  # turboquant keeps the first and the last two at the model's dtype


def of(shape: ModelShape, engine: EngineConfig, kv_cache_dtype: str) -> frozenset[int]:
    """Return their indices.

    Raises:
        Refused: KV_DTYPE_UNSUPPORTED, there is no such layer, or turboquant cannot leave it alone.
    """
    layers = shape.layer_count
    beyond = [index for index in engine.kv_cache_skip_layers if not 0 <= index < layers]
    if beyond:
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"skipLayers {beyond[0]}: the model has layers 0 to {layers - 1}",
            "spec.kvCache.skipLayers",
        )
    kept = set(engine.kv_cache_skip_layers)
    if engine.kv_cache_skip_windows:
        kept.update(index for index, layer in enumerate(shape.layers) if _has_window(layer.mixers))
    if kv_cache_dtype in kv_dtypes.TURBOQUANT:
        kept.update(_boundary(shape))
    return frozenset(kept)


def _has_window(mixers: Sequence[Mixer]) -> bool:
    return any(isinstance(mixer, Attention) and mixer.window for mixer in mixers)


def _boundary(shape: ModelShape) -> set[int]:
    """Return the layers at both ends that turboquant leaves alone; none in hybrid models.

    Raises:
        Refused: attention and recurrent state lie in one layer, so the engine finds no attention;
            or an end has a layer of chunked attention, whose backend cannot leave it alone.
    """
    mixed = [len(layer.mixers) > 1 for layer in shape.kinds]
    if any(mixed):
        _refuse_turboquant("layers that have attention beside a recurrent state")
    if shape.recurrent:
        return set()
    layers = shape.layer_count
    edge = min(_BOUNDARY_LAYERS, layers // 2)
    ends = {*range(edge), *range(layers - edge, layers)}
    mixers = [mixer for index in ends for mixer in shape.layers[index].mixers]
    if any(isinstance(mixer, Attention) and mixer.chunk for mixer in mixers):
        _refuse_turboquant("chunked attention in the first or last layers")
    return ends


def _refuse_turboquant(what: str) -> None:
    raise Refused(
        Reason.KV_DTYPE_UNSUPPORTED,
        f"turboquant does not run with {what}; use fp8 or auto",
        "spec.kvCache.dtype",
    )
