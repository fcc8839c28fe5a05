"""`status` of an LLMDeployment: what was planned, what runs, what is wrong."""

from typing import Annotated, Literal

from pydantic import Field

from tidegate.api.conditions import Condition
from tidegate.api.overload_status import OverloadStatus
from tidegate.api.rollout_status import RolloutStatus
from tidegate.api.wire import Wire

Count = Annotated[int, Field(ge=0)]
Line = Annotated[str, Field(max_length=1024)]
Name = Annotated[str, Field(max_length=253)]
MOST_DRIFT_PERCENT = 100_000


class BudgetLine(Wire):
    """One line of a GPU's budget."""

    bytes: Count
    """Planned bytes."""
    low: Count
    """The least that is expected."""
    high: Count
    """The most that is expected."""
    how: Literal["exact", "estimated", "measured"]
    """How the number was obtained."""


class GpuBudget(Wire):
    """The division of one GPU's memory; the lines add up to `total`."""

    total: BudgetLine
    """What CUDA gives the engine."""
    weights: BudgetLine
    """Weights of this rank."""
    activations: BudgetLine
    """Peak of one step."""
    cuda_graphs: BudgetLine
    """Captured graphs."""
    runtime: BudgetLine
    """CUDA context, NCCL and libraries."""
    draft: BudgetLine
    """Weights of the draft model."""
    reserve: BudgetLine
    """What is never planned."""
    kv_cache: BudgetLine
    """What is left for KV, in whole blocks."""


class Concurrency(Wire):
    """Requests that one pod's KV cache holds at once."""

    at_max_model_len: Count
    """When each has maxModelLen tokens."""
    at_p95: Count | None = None
    """When each has the declared p95 prompt and output."""


class PrefillSpeed(Wire):
    """How fast one pod computes prompts of a usual length."""

    tokens_per_second: Count
    """Prompt tokens in a second, where it does nothing else."""
    how: Literal["estimated"] = "estimated"
    """How the number was obtained: from the card's rate and the share of it that prefill has."""


class MeasuredKV(Wire):
    """The KV cache of a slice as an engine of it told."""

    kv_tokens: Count
    """Tokens that one pod's KV cache holds."""
    kv_blocks: Count
    """Blocks of one pod, the engine's null block included."""
    block_size: Count
    """Tokens in a block."""
    drift_percent: Annotated[float, Field(ge=-100, le=MOST_DRIFT_PERCENT)]
    """How far the tokens are off the plan; negative where there are fewer."""


class SlicePlan(Wire):
    """The plan of one pool on one class of node."""

    pool: Name
    """unified, prefill or decode."""
    node_class: Name
    """Class of GPU node."""
    gpu_product: Name
    """GPU product label."""
    nodes: Count
    """Nodes of the class that the pool can land on."""
    replicas: Count
    """Pods given to this class."""
    per_gpu: GpuBudget
    """Division of each GPU's memory."""
    kv_bytes_per_token: Count
    """Bytes that one token needs on each GPU."""
    kv_block_size: Count
    """Tokens in a block."""
    kv_blocks: Count
    """Blocks of one pod, the engine's null block included."""
    kv_tokens: Count
    """Tokens that one pod's KV cache holds."""
    concurrent_requests: Concurrency
    """Requests that fit."""
    prefill: PrefillSpeed | None = None
    """Speed of prefill; absent where the card's rate is not known, and of pods that only decode."""
    measured: MeasuredKV | None = None
    """What a ready engine told; absent until one did."""
    because: Annotated[list[Line], Field(max_length=32)] = []
    """The sentences that led to the plan."""


class PoolStatus(Wire):
    """What runs of one pool."""

    name: Name
    """unified, prefill or decode."""
    revision: Annotated[str, Field(max_length=32)]
    """The revision that is rolled out."""
    desired: Count
    """Pods asked for."""
    ready: Count
    """Ready pods of any revision."""
    updated: Count
    """Ready pods of the current revision."""


class GateStatus(Wire):
    """The gates that run."""

    desired: Count
    """Gates asked for."""
    ready: Count
    """Gates that are ready."""


class LLMDeploymentStatus(Wire):
    """What Tidegate saw and decided."""

    observed_generation: Count = 0
    """The generation of the spec that this status is of."""
    mode: Literal["Unified", "PrefillDecode"] | None = None
    """How the phases are divided."""
    revision: Annotated[str, Field(max_length=32)] | None = None
    """The current revision of all pools."""
    pods: Annotated[str, Field(max_length=128)] | None = None
    """Ready and desired pods by pool, for the printer column."""
    address: Annotated[str, Field(max_length=256)] | None = None
    """Where clients connect: the gate's Service; absent without a gate."""
    gate: GateStatus | None = None
    """The gates that run; absent without a gate."""
    kv_tokens: Count | None = None
    """Tokens that the KV caches of the pods that decode hold together."""
    reason: Annotated[str, Field(max_length=128)] | None = None
    """Reason of the Ready condition, for the printer column."""
    conditions: Annotated[
        list[Condition],
        Field(
            max_length=16,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = []
    """Ready, Reconciling, Stalled, BudgetFits, Available, BudgetDrift, RenderingCurrent, of the
    rollout Promoted, CanaryHealthy, Progressing, and of the slow loop MetricsAvailable, Overloaded,
    TrafficShifted.
    """
    overload: OverloadStatus | None = None
    """What the slow loop has decided; absent without a gate, and without Prometheus unless a lever
    holds."""
    rollout: RolloutStatus | None = None
    """How far the rollout is; absent until there is a plan."""
    plan: Annotated[list[SlicePlan], Field(max_length=48)] = []
    """One entry for each pool and class of node."""
    excluded: Annotated[list[Line], Field(max_length=48)] = []
    """Classes of node that a pool cannot use, and why."""
    warnings: Annotated[list[Line], Field(max_length=32)] = []
    """What runs but may disappoint, with its numbers and the nearest change that works."""
    pools: Annotated[list[PoolStatus], Field(max_length=3)] = []
    """What runs."""
