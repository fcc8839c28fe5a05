"""How a model is divided over GPUs, and which divisions the engine refuses."""

from tidegate.api.reasons import Reason
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.feed_forward import Dense
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused

_TENSOR_PARALLEL_CHOICES = (1, 2, 4, 8, 16, 32, 64)


def kv_heads_per_gpu(kv_heads: int, tensor_parallel: int) -> int:
    """Return the KV heads on each GPU: replicated once there are fewer of them than GPUs."""
    return max(1, kv_heads // tensor_parallel)


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
    fault = _fault(shape, engine.tensor_parallel)
    if fault is not None:
        sizes = ", ".join(map(str, choices(shape)))
        _refuse(f"tensorParallel {engine.tensor_parallel} {fault}; {sizes} work")
    if not 1 <= engine.pipeline_parallel <= shape.layer_count:
        _refuse(
            f"pipelineParallel {engine.pipeline_parallel} must be from 1 to the model's "
            f"{shape.layer_count} layers"
        )
    if engine.decode_context_parallel != 1:
        _check_context_parallel(shape, engine)


def _fault(shape: ModelShape, size: int) -> str | None:
    if size < 1:
        return "must be at least 1"
    for layer in shape.kinds:
        attention = layer.attention
        if attention.heads % size:
            return f"does not divide the {attention.heads} attention heads"
        if attention.kv_heads % size and size % attention.kv_heads:
            return f"neither divides the {attention.kv_heads} KV heads nor is a multiple of them"
        if layer.mlp is not None and layer.mlp.intermediate_size % size:
            what = "feed-forward" if isinstance(layer.mlp, Dense) else "expert"
            return f"does not divide the {what} size of {layer.mlp.intermediate_size}"
    return None


def _check_context_parallel(shape: ModelShape, engine: EngineConfig) -> None:
    """Decode context parallel uses the GPUs that hold replicated KV heads."""
    size = engine.decode_context_parallel
    for attention in {layer.attention for layer in shape.kinds}:
        replicas = engine.tensor_parallel // attention.kv_heads
        if not 1 <= size <= replicas or replicas < 2:
            _refuse(
                f"decodeContextParallel {size} must be at most tensorParallel / KV heads = "
                f"{engine.tensor_parallel}/{attention.kv_heads}"
            )
        group = attention.heads // attention.kv_heads
        if engine.tensor_parallel % size or group % size:
            _refuse(
                f"decodeContextParallel {size} must divide tensorParallel "
                f"{engine.tensor_parallel} and the {group} query heads of each KV head"
            )


def _refuse(message: str) -> None:
    raise Refused(Reason.PARALLELISM_INVALID, message, "spec.pools.tensorParallel")
