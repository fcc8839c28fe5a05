"""Bytes of a model's weights on each GPU, and how they are known."""

from collections import Counter
from dataclasses import replace

from tidegate.api.figures import Figure, estimated, measured
from tidegate.core.budget import bands, checkpoint_weights
from tidegate.core.budget import weight_arithmetic as arithmetic
from tidegate.core.budget.draft import Draft
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Experts
from tidegate.core.budget.shape import ModelShape, element_bytes
from tidegate.core.budget.weight_arithmetic import BYTES_FIELD, Sizes


def of(
    shape: ModelShape, engine: EngineConfig, dtype: str, checkpoint_bytes: int | None = None
) -> Figure:
    """Return the bytes of weights on the GPU that holds most.

    `checkpoint_bytes`, the size of the whole checkpoint as the user states it, replaces what its
    files tell (`shape.checkpoint`), and that replaces the arithmetic over config.json. A size is
    divided over the GPUs as the arithmetic says, evenly where the config does not tell enough.

    Raises:
        Refused: the config lacks a size, or its quantisation is unknown, and nothing replaces it.
    """
    if checkpoint_bytes is not None:
        gpus = engine.tensor_parallel * engine.pipeline_parallel
        share = checkpoint_weights.share_of_fullest(shape, engine, dtype)
        if share is None:
            return measured(-(-checkpoint_bytes // gpus), f"{BYTES_FIELD} over {gpus} GPUs")
        return measured(round(checkpoint_bytes * share), f"{BYTES_FIELD}, divided by config.json")
    if shape.checkpoint is not None:
        return checkpoint_weights.of(shape.checkpoint, shape, engine, dtype)
    likely = round(max(arithmetic.stages(shape, engine, dtype)))
    is_quantized = arithmetic.quantization_of(shape, engine) is not None
    term = "weights_quantized" if is_quantized else "weights_plain"
    text = bands.spread(lambda value: likely * value(term), f"config.json, {dtype}")
    vision = None if engine.language_only else _vision(shape, dtype, engine.tensor_parallel)
    return text if vision is None else text + vision


def of_draft(shape: ModelShape, draft: Draft, engine: EngineConfig, dtype: str) -> Figure:
    """Return the bytes of a draft's weights on each GPU of the last pipeline stage.

    Raises:
        Refused: the draft's config lacks a size.
    """
    own = draft.shape or shape
    if draft.method == "mtp":
        stored = checkpoint_weights.of_draft(shape, engine, dtype)
        if stored is not None:
            return stored
    if draft.shape is not None and engine.speculative is not None:
        engine = replace(engine, quantization=engine.speculative.quantization)
    sizes = arithmetic.sizes_of(own, engine, dtype)
    count: float = sum(arithmetic.layer_bytes(layer, sizes) for layer in draft.layers)
    inputs = 3 if draft.method == "eagle3" else 2
    if draft.method == "draft_model":
        count += arithmetic.embedding(sizes) * (1 if own.tied_embeddings else 2)
    else:  # a projection of the target's hidden states; embeddings are the target's own
        count += inputs * sizes.hidden * sizes.hidden * sizes.dtype_bytes
        if own.draft_vocab_size:
            count += own.draft_vocab_size * sizes.hidden * sizes.dtype_bytes / sizes.tensor_parallel
    return bands.spread(
        lambda value: count * value("weights_quantized"), f"the {draft.method} draft's layers"
    )


def parameters(shape: ModelShape) -> tuple[int, int] | None:
    """Return the weights that one token passes through, and all weights; None if not known."""
    if shape.hidden_size is None or shape.vocab_size is None:
        return None
    if any(layer.mlp is None for layer in shape.kinds):
        return None
    one = Sizes(1, 1, 1, 1, shape.hidden_size, shape.vocab_size, 1)
    counts = Counter(shape.kind_of)
    every = sum(
        arithmetic.layer_bytes(shape.kinds[kind], one) * count for kind, count in counts.items()
    )
    every += arithmetic.embedding(one)
    idle = sum(
        (mlp.experts - mlp.experts_per_token) * arithmetic.one_expert(mlp, one) * count
        for kind, count in counts.items()
        if isinstance(mlp := shape.kinds[kind].mlp, Experts)
    )
    return round(every - idle), round(every)


def _vision(shape: ModelShape, dtype: str, tensor_parallel: int) -> Figure | None:
    """Return the tower of a multimodal model; None for a text model.

    Most models divide theirs over the GPUs (--mm-encoder-tp-mode weights); of some every GPU holds
    all of it.
    """
    config = shape.vision
    if config is None:
        return None
    size = arithmetic.vision_elements(config, shape.hidden_size or 0) * element_bytes(dtype)
    if not size:  # where the library fills in its sizes, nothing below 2 GiB is excluded
        return estimated(2**30, 0, 2**31, "vision_config does not tell the sizes")
    term, share = bands.term("weights_vision"), size / tensor_parallel
    low, high = round(share * term.low), round(size * term.high)
    return estimated(round(share * term.value), low, high, "vision_config")
