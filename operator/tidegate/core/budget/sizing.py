"""From a card to a budget: what each line takes, what is left for KV, and what that holds."""

from dataclasses import dataclass

from tidegate.api.figures import Figure
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.shape import ModelShape
from tidegate.facts.gpus import Gpu


@dataclass(frozen=True)
class Workload:
    """The requests that are expected, in tokens."""

    prompt_tokens_p95: int
    output_tokens_p95: int


@dataclass(frozen=True)
class Budget:
    """The division of one GPU's memory: the lines below `total` add up to it exactly."""

    total: Figure
    weights: Figure
    activations: Figure
    cuda_graphs: Figure
    runtime: Figure
    draft: Figure
    reserve: Figure
    kv_cache: Figure


@dataclass(frozen=True)
class Sizing:
    """What one pod of this configuration holds on this class of GPU, and why."""

    budget: Budget
    pool: KVPool
    requests_at_max_model_len: int
    requests_at_p95: int | None
    because: tuple[str, ...]
    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None


def size(
    shape: ModelShape,
    engine: EngineConfig,
    gpu: Gpu,
    *,
    safety_line: float,
    kv_cache_bytes: int | None = None,
    activations_bytes: int | None = None,
    weights_bytes: int | None = None,
    workload: Workload | None = None,
) -> Sizing:
    """Size one engine pod on GPUs of one class.

    `kv_cache_bytes` is a ceiling for the KV cache of each GPU; `weights_bytes` the size of the
    whole checkpoint; `activations_bytes` a measured peak of each GPU.

    Raises:
        Refused: the model or the configuration cannot be sized, or does not fit; the message has
            the numbers and what would work.
    """
    raise NotImplementedError
