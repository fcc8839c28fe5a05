"""Weights by what the files of a checkpoint tell: their headers, or the index with the total."""

from dataclasses import replace

from tidegate.api.figures import Figure, estimated, exact
from tidegate.core.budget import bands, mixer_weights, parallelism, stored_weights
from tidegate.core.budget import weight_arithmetic as arithmetic
from tidegate.core.budget.checkpoint import Checkpoint
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.mixers import LatentAttention
from tidegate.core.budget.shape import Layer, ModelShape, element_bytes
from tidegate.errors import Refused

_HEADERS = "headers of the checkpoint's files"
_INDEX = "metadata.total_size of the checkpoint's index"


def of(found: Checkpoint, shape: ModelShape, engine: EngineConfig, dtype: str) -> Figure:
    """Return the bytes of weights on the GPU that holds most."""
    if found.tensors:
        return _of_tensors(found, shape, engine, dtype)
    return _of_index(found, shape, engine, dtype)


def of_draft(shape: ModelShape, engine: EngineConfig, dtype: str) -> Figure | None:
    """Return the layers for multi-token prediction; None where no headers tell of them."""
    if shape.checkpoint is None:
        return None
    count = stored_weights.of_draft(shape.checkpoint, shape, engine, element_bytes(dtype))
    if count is None:
        return None
    if shape.quantization is None:
        return exact(round(count), _HEADERS)
    return bands.spread(lambda value: count * value("weights_repacked"), _HEADERS)


def share_of_fullest(shape: ModelShape, engine: EngineConfig, dtype: str) -> float | None:
    """Return what the fullest GPU holds over the checkpoint; None if config.json is too short."""
    try:
        whole = _stored(shape, engine, dtype)
        return max(arithmetic.stages(shape, engine, dtype)) / whole
    except Refused:
        return None


def _of_tensors(found: Checkpoint, shape: ModelShape, engine: EngineConfig, dtype: str) -> Figure:
    """Return the weights by the headers of the checkpoint's files."""
    size, own = element_bytes(dtype), shape.quantization
    online = None if own is not None else arithmetic.quantization_of(shape, engine)
    linear_bytes = None if online is None else online.bytes_per_element
    stages = stored_weights.stages(found, shape, engine, size, linear_bytes)
    added = _added(shape, engine, dtype)
    likely = round(max(map(sum, zip(stages, added, strict=True))))
    if own is None and online is None:
        text = exact(likely, _HEADERS)
    else:  # kernels pad what is quantised, and lay it out anew
        text = bands.spread(lambda value: likely * value("weights_repacked"), _HEADERS)
    return _with_tower(text, round(stored_weights.of_tower(found, size)), engine)


def _of_index(found: Checkpoint, shape: ModelShape, engine: EngineConfig, dtype: str) -> Figure:
    """Return the weights by an index: the total is exact, what each GPU holds of it is a rule."""
    gpus = engine.tensor_parallel * engine.pipeline_parallel
    share = share_of_fullest(shape, engine, dtype)
    if share is None:
        even = -(-found.total_bytes // gpus)
        source = f"{_INDEX}, over {gpus} GPUs evenly"
        return estimated(even, even, found.total_bytes, source)
    text_bytes, tower_bytes = _loaded(found, shape, engine, dtype)
    is_plain = shape.quantization is None and engine.quantization is None
    if gpus == 1 and is_plain and not found.has_draft:
        likely = text_bytes + round(_added(shape, engine, dtype)[0])
        return _with_tower(exact(likely, _INDEX), tower_bytes, engine)
    term = "weights_plain" if is_plain else "weights_quantized"
    divided, source = text_bytes * share, f"{_INDEX}, divided by config.json"
    text = bands.spread(lambda value: divided * value(term), source)
    return _with_tower(text, tower_bytes, engine)


def _loaded(
    found: Checkpoint, shape: ModelShape, engine: EngineConfig, dtype: str
) -> tuple[int, int]:
    """Return the bytes of the decoder, and of a tower beside it, in the dtype that is served.

    The total has all that the files hold: layers that draft too, which the decoder does not load.
    """
    size = element_bytes(dtype)
    whole = _stored(shape, engine, dtype)
    tower = 0
    if found.has_tower and shape.vision is not None:
        tower = arithmetic.vision_elements(shape.vision, shape.hidden_size or 0) * size
    drafts: float = 0
    if found.has_draft:
        sizes = arithmetic.sizes_of(shape, _alone(engine), dtype)
        drafts = sum(arithmetic.layer_bytes(layer, sizes) for layer in shape.mtp_layers)
    everything = whole + drafts + tower
    total = found.total_bytes
    if shape.quantization is None:  # as it is stored, in 16 or 32 bits, may not be as it is served
        total = round(total * size / (4 if total * 2 / size > 1.5 * everything else 2))
    tower = min(tower, total)
    return round((total - tower) * whole / (whole + drafts)), tower


def _stored(shape: ModelShape, engine: EngineConfig, dtype: str) -> float:
    """Return the bytes of the decoder's checkpoint by the arithmetic."""
    alone = _alone(engine)
    return sum(arithmetic.stages(shape, alone, dtype)) - sum(_added(shape, alone, dtype))


def _added(shape: ModelShape, engine: EngineConfig, dtype: str) -> list[float]:
    """Return the bytes of each stage that no file has: absorbed projections, and positions."""
    size = element_bytes(dtype)
    of_kind = [_absorbed(layer, shape, engine) * size for layer in shape.kinds]
    added: list[float] = [
        sum(of_kind[kind] for kind in shape.kind_of[stage.start : stage.stop])
        for stage in parallelism.stages(shape.layer_count, engine.pipeline_parallel)
    ]
    added[0] += arithmetic.rotary_cache(shape, dtype)
    return added


def _absorbed(layer: Layer, shape: ModelShape, engine: EngineConfig) -> float:
    """Return the elements that a layer of latent attention keeps a second time."""
    return sum(
        mixer_weights.count(mixer, shape.hidden_size or 0, engine.tensor_parallel).plain
        for mixer in layer.mixers
        if isinstance(mixer, LatentAttention)
    )


def _with_tower(text: Figure, tower_bytes: int, engine: EngineConfig) -> Figure:
    """Add a tower: most models divide theirs, of some every GPU holds all of it."""
    if engine.language_only:
        return text
    least = tower_bytes // engine.tensor_parallel
    if least == tower_bytes:
        return replace(text + exact(tower_bytes), source=text.source)
    return replace(text + estimated(least, least, tower_bytes), source=text.source)


def _alone(engine: EngineConfig) -> EngineConfig:
    """Return the engine on a single GPU, with the checkpoint as it is stored."""
    return replace(
        engine,
        quantization=None,
        tensor_parallel=1,
        pipeline_parallel=1,
        data_parallel=1,
        expert_parallel=False,
    )
