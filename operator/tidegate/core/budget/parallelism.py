"""How a model is divided over GPUs, and which divisions the engine refuses."""

from tidegate.api.reasons import Reason
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Dense, Experts
from tidegate.core.budget.mixers import Attention, AttentionMixer, LatentAttention, Mixer
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused

_VOCABULARY_MULTIPLE = 64
_TENSOR_PARALLEL_CHOICES = (1, 2, 4, 8, 16, 32, 64)
# What some of the engine's model classes lack (0.32, 0.33).
_NEVER_REPLICATED = ("gpt_oss",)
_NO_PIPELINE = ("gemma3n_text", "mamba2", "zamba2")


def kv_heads_per_gpu(kv_heads: int, tensor_parallel: int) -> int:
    """Return the KV heads on each GPU: replicated once there are fewer of them than GPUs."""
    return max(1, kv_heads // tensor_parallel)


def padded_vocabulary(tokens: int) -> int:
    """Return the vocabulary as the engine pads it before it divides embeddings and head."""
    return -(-tokens // _VOCABULARY_MULTIPLE) * _VOCABULARY_MULTIPLE


def stages(layers: int, pipeline_parallel: int) -> tuple[range, ...]:
    """Return the layers of each pipeline stage, as the engine divides them.

    What does not divide evenly goes to the stages before the last, from the back.
    """
    counts = [layers // pipeline_parallel] * pipeline_parallel
    for index in range(2, layers % pipeline_parallel + 2):
        counts[-index] += 1
    starts = [sum(counts[:stage]) for stage in range(pipeline_parallel)]
    return tuple(range(start, start + n) for start, n in zip(starts, counts, strict=True))


def choices(shape: ModelShape) -> tuple[int, ...]:
    """Return the tensor parallel sizes that the model can be divided into, smallest first."""
    return tuple(size for size in _TENSOR_PARALLEL_CHOICES if _fault(shape, size) is None)


def check(shape: ModelShape, engine: EngineConfig) -> None:
    """Check the division as the engine does when it starts.

    Raises:
        Refused: PARALLELISM_INVALID says what does not divide what, and which sizes do.
    """
    fault = _fault(shape, engine.tensor_parallel, engine.expert_parallel)
    if fault is not None:
        sizes = ", ".join(map(str, choices(shape)))
        _refuse(f"tensorParallel {engine.tensor_parallel} {fault}; {sizes} work")
    if not 1 <= engine.pipeline_parallel <= shape.layer_count:
        _refuse(
            f"pipelineParallel {engine.pipeline_parallel} must be from 1 to the model's "
            f"{shape.layer_count} layers"
        )
    if engine.pipeline_parallel > 1 and shape.model_type in _NO_PIPELINE:
        _refuse(f"the engine has no pipeline parallel for {shape.model_type}; set it to 1")
    if engine.decode_context_parallel != 1:
        _check_context_parallel(shape, engine)


def check_draft(shape: ModelShape, draft: ModelShape, engine: EngineConfig) -> None:
    """Check that a draft with a config.json of its own can be divided as its model is.

    Raises:
        Refused: PARALLELISM_INVALID says what does not divide what, and which sizes do.
    """
    fault = _fault(draft, engine.tensor_parallel, engine.expert_parallel)
    if fault is not None:
        sizes = [size for size in choices(shape) if _fault(draft, size) is None]
        _refuse(
            f"tensorParallel {engine.tensor_parallel} {fault} of the draft; "
            f"{', '.join(map(str, sizes))} work for both, or use another draft"
        )


def _fault(shape: ModelShape, size: int, expert_parallel: bool = False) -> str | None:
    if size < 1:
        return "must be at least 1"
    for layer in shape.kinds:
        for mixer in layer.mixers:
            fault = _fault_of_mixer(shape, mixer, size)
            if fault is not None:
                return fault
        mlp = layer.mlp
        if mlp is None or (expert_parallel and isinstance(mlp, Experts)):
            continue
        if mlp.intermediate_size % size:
            what = "feed-forward" if isinstance(mlp, Dense) else "expert"
            return f"does not divide the {what} size of {mlp.intermediate_size}"
    return None


def _fault_of_mixer(shape: ModelShape, mixer: Mixer, size: int) -> str | None:
    if not isinstance(mixer, AttentionMixer):
        return mixer.fault(size)
    if mixer.heads % size:
        return f"does not divide the {mixer.heads} attention heads"
    if not isinstance(mixer, Attention):
        return None
    kv_heads = mixer.kv_heads
    if kv_heads % size and size % kv_heads:
        return f"neither divides the {kv_heads} KV heads nor is a multiple of them"
    if size > kv_heads and shape.model_type in _NEVER_REPLICATED:
        return f"is above the {kv_heads} KV heads, which the engine does not replicate here"
    return None


def _check_context_parallel(shape: ModelShape, engine: EngineConfig) -> None:
    """Check decode context parallel: it uses the GPUs that hold replicas of the cache."""
    size = engine.decode_context_parallel
    if size < 1 or engine.tensor_parallel % size:
        _refuse(f"decodeContextParallel {size} must divide tensorParallel {engine.tensor_parallel}")
    for layer in shape.kinds:
        for mixer in layer.mixers:
            if isinstance(mixer, Attention) and not mixer.window and not mixer.chunk:
                _check_replicas(mixer, engine)
            elif not isinstance(mixer, LatentAttention):
                _refuse(
                    f"decodeContextParallel {size} does not go with windows, chunks or recurrent "
                    "layers; set it to 1"
                )


def _check_replicas(attention: Attention, engine: EngineConfig) -> None:
    size = engine.decode_context_parallel
    replicas = engine.tensor_parallel // attention.kv_heads
    if size > replicas or replicas < 2:
        _refuse(
            f"decodeContextParallel {size} must be at most tensorParallel / KV heads = "
            f"{engine.tensor_parallel}/{attention.kv_heads}"
        )
    group = attention.heads // attention.kv_heads
    if group % size:
        _refuse(f"decodeContextParallel {size} must divide the {group} query heads of each KV head")


def _refuse(message: str) -> None:
    raise Refused(Reason.PARALLELISM_INVALID, message, "spec.pools.tensorParallel")
