"""What a class of node cannot do at all for a pool, whatever the memory of its GPUs."""

from collections.abc import Sequence

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import Pool
from tidegate.api.quantities import format_bytes, parse_quantity
from tidegate.api.reasons import Reason
from tidegate.core import host_memory
from tidegate.core.budget.shape import ModelShape
from tidegate.core.nodes import Node, NodeClass
from tidegate.errors import Refused
from tidegate.facts import quantization_methods
from tidegate.facts.gpus import Gpu
from tidegate.facts.quantization_methods import Method


def require(
    spec: LLMDeploymentSpec,
    name: str,
    model: ModelShape,
    node_class: NodeClass,
    nodes: Sequence[Node],
) -> None:
    """Check a pool against the nodes of a class.

    Raises:
        Refused: Its pods would not start there.
    """
    pool = spec.pools.by_name()[name]
    _require_known_share(spec, node_class.gpu)
    _require_gpus(name, pool, node_class, nodes)
    _require_one_device(name, pool, node_class.gpu)
    _require_type(method_of(spec, model), node_class.gpu)
    require_pod_memory(spec, name)
    _require_host_memory(spec, pool, node_class, nodes)


def require_pod_memory(spec: LLMDeploymentSpec, name: str) -> None:
    """Check what the engine takes for offloaded KV against the memory limit of the pool's pods.

    Raises:
        Refused: It takes all of it at its start, and it counts against the limit.
    """
    pool = spec.pools.by_name()[name]
    limit, taken = pool.resources.limits.get("memory"), host_memory.shared_bytes(spec, _gpus(pool))
    if not host_memory.offload_bytes(spec) or limit is None or taken < parse_quantity(limit):
        return
    raise Refused(
        Reason.OFFLOAD_TOO_LARGE,
        f"{format_bytes(host_memory.offload_bytes(spec))} for offloaded KV and what the engine's "
        f"processes share, {format_bytes(taken)} in all, leave nothing of the pod's memory limit "
        f"of {limit}; raise it, or offload less",
        f"spec.pools.{name}.resources.limits.memory",
    )


def method_of(spec: LLMDeploymentSpec, model: ModelShape) -> Method | None:
    """Return how the weights are quantised: the checkpoint's own way comes first."""
    own = model.quantization
    name = own.method if own is not None else spec.model.weights.quantization
    return quantization_methods.find(name) if name else None


def _require_known_share(spec: LLMDeploymentSpec, gpu: Gpu) -> None:
    """Of a card that pods share, a pod must know, and keep to, what it may take."""
    if gpu.is_mps and gpu.sharers == 1:
        raise Refused(
            Reason.GPU_UNKNOWN,
            f"{gpu.product} is shared by MPS, so a pod gets a part of its memory that no label "
            "tells; declare the class with that memory in the operator's nodeClasses setting, or "
            "use whole cards or MIG devices",
        )
    line, pods = spec.budget.safety_line, gpu.sharers
    if gpu.is_shared and line * pods > 1:
        raise Refused(
            Reason.BUDGET_UNCERTAIN,
            f"{gpu.product} is shared by time among {pods} pods, each of which sees the whole card "
            f"and none of which is limited: a safetyLine of {line:g} for each is {line * pods:.3g} "
            f"cards; a safetyLine up to {share_of_a_pod(pods):g} shares it, or whole cards, MIG "
            "devices or MPS, which limit each pod by themselves",
            "spec.budget.safetyLine",
        )


def share_of_a_pod(pods: int) -> float:
    """Return the part of a card for each of so many pods, rounded down to four digits."""
    return 10_000 // pods / 10_000


def _require_gpus(name: str, pool: Pool, node_class: NodeClass, nodes: Sequence[Node]) -> None:
    gpus, largest = _gpus(pool), max(node.gpus for node in nodes)
    if largest < gpus:
        raise Refused(
            Reason.NODE_TOO_SMALL,
            f"a pod needs {gpus} GPUs (tensorParallel {pool.tensor_parallel} x pipelineParallel "
            f"{pool.pipeline_parallel}) and the largest node of {node_class.product} has "
            f"{largest}; lower the parallelism",
            f"spec.pools.{name}.tensorParallel",
        )


def _require_one_device(name: str, pool: Pool, gpu: Gpu) -> None:
    """CUDA shows a process one MIG device at most; shares of a card may be of the same card."""
    if _gpus(pool) == 1 or not gpu.is_part:
        return
    wide = "tensorParallel" if pool.tensor_parallel > 1 else "pipelineParallel"
    if gpu.mig_profile is None:
        raise Refused(
            Reason.PARALLELISM_INVALID,
            f"a pod of {_gpus(pool)} shares of {gpu.product} may get shares of one card, on which "
            f"its processes would stand in each other's way; {wide} 1 starts, and whole cards take "
            "more",
            f"spec.pools.{name}.{wide}",
        )
    raise Refused(
        Reason.PARALLELISM_INVALID,
        f"a pod of {_gpus(pool)} MIG devices ({gpu.mig_profile}) cannot start: a process sees only "
        f"one of them, and neither NVLink nor peer access joins them; {wide} 1 starts",
        f"spec.pools.{name}.{wide}",
    )


def _require_type(method: Method | None, gpu: Gpu) -> None:
    """The engine compares the method's least compute capability with the GPU's at its start."""
    capability = gpu.compute_capability
    if method is None or capability is None or capability >= method.least:
        return
    raise Refused(
        Reason.QUANTIZATION_UNSUPPORTED,
        "weights quantised by {} need compute capability {}.{}, and {} has {}.{}; use a newer GPU "
        "or another checkpoint".format(method.name, *method.least, gpu.product, *capability),
        "spec.model.weights.quantization",
    )


def _require_host_memory(
    spec: LLMDeploymentSpec, pool: Pool, node_class: NodeClass, nodes: Sequence[Node]
) -> None:
    """The engine takes all of it at its start; a node that does not tell its memory may have it."""
    memories = [node.memory_bytes for node in nodes if node.memory_bytes is not None]
    taken = host_memory.shared_bytes(spec, _gpus(pool))
    if not host_memory.offload_bytes(spec) or len(memories) < len(nodes) or taken < max(memories):
        return
    raise Refused(
        Reason.OFFLOAD_TOO_LARGE,
        f"a pod takes {format_bytes(taken)} of host memory for offloaded KV and what its processes "
        f"share, and the largest node of {node_class.product} has {format_bytes(max(memories))}; "
        "lower the offload",
        "spec.kvCache.offload.cpu",
    )


def _gpus(pool: Pool) -> int:
    return pool.tensor_parallel * pool.pipeline_parallel
