"""Does the card have what the configuration asks of it: types, links, whole devices."""

from tidegate.api.reasons import Reason
from tidegate.core import class_limits
from tidegate.core.budget import kv_dtypes, parallelism
from tidegate.core.checks import nearest, speed
from tidegate.core.checks.subject import Slice
from tidegate.core.checks.verdict import Change, Severity, Verdict, between, duration, size
from tidegate.facts import host_links
from tidegate.facts.quantization_methods import Capability

_FP8_SINCE = (8, 9)
"""The first compute capability with arithmetic in FP8."""
_SAMPLE_TOKENS = 1024
_BRIDGED = 2
"""GPUs that an NVLink bridge joins."""


def weights_are_widened(at: Slice) -> Verdict | None:
    """The type of the weights is not the GPU's own: memory is saved, arithmetic is not."""
    method = class_limits.method_of(at.spec, at.model)
    capability = at.gpu.compute_capability
    if method is None or method.native is None or capability is None:
        return None
    if not method.least <= capability < method.native:
        return None
    return _of(
        at,
        Reason.TYPE_NOT_NATIVE,
        Severity.WARN,
        f"{at.gpu.product} (compute capability {_spell(capability)}) has no arithmetic for "
        f"{method.name} weights, which came with {_spell(method.native)}: they "
        f"{method.otherwise}, so prefill is no faster than with 16 bits",
        "spec.model.weights.quantization",
    )


def kv_is_widened(at: Slice) -> Verdict | None:
    """The same of FP8 keys and values: attention converts them when it reads them."""
    capability = at.gpu.compute_capability
    dtype = kv_dtypes.resolve(at.entry.engine.kv_cache_dtype, at.model)
    if capability is None or capability >= _FP8_SINCE or not dtype.startswith("fp8"):
        return None
    return _of(
        at,
        Reason.TYPE_NOT_NATIVE,
        Severity.WARN,
        f"{at.gpu.product} (compute capability {_spell(capability)}) has no arithmetic for "
        f"{dtype}, which came with {_spell(_FP8_SINCE)}: the KV cache holds twice as much, and "
        "attention widens what it reads; measure the time for each output token",
        "spec.kvCache.dtype",
    )


def card_is_shared(at: Slice) -> Verdict | None:
    """Others on a time-sliced card take memory that no plan knows of.

    Where the labels tell how many they are, the safety line is a pod's share, or there is no plan.
    """
    if not at.gpu.is_shared or at.gpu.sharers > 1 or at.gpu.taken_bytes:
        return None
    return _of(
        at,
        Reason.BUDGET_UNCERTAIN,
        Severity.WARN,
        f"{at.gpu.product} is shared by time: each process sees the whole card, and what others "
        "take of it is not counted; the engine ends at its start where too little is free, so "
        "lower budget.safetyLine to this pod's share",
        "spec.budget.safetyLine",
    )


def gpus_are_left_idle(at: Slice) -> Verdict | None:
    """The GPUs of a node are no multiple of a pod's."""
    whole, gpus = at.entry.node_class.gpus_per_node, at.entry.gpus
    if whole % gpus == 0 or gpus > whole:
        return None
    field = f"{at.path}.tensorParallel"
    now = at.pool.tensor_parallel
    sizes = sorted(parallelism.choices(at.model), key=lambda n: (abs(n - now), -n))

    def divides(found: Slice) -> str | None:
        return f"uses all {whole}" if whole % found.entry.gpus == 0 else None

    return _of(
        at,
        Reason.GPUS_LEFT_IDLE,
        Severity.WARN,
        f"a node of {whole} GPUs holds {whole // gpus} pods of {gpus}, and {whole % gpus} of its "
        "GPUs can't be used by this pool",
        field,
        tuple(nearest.change(field, sizes, at.with_field, divides)),
    )


def gpus_are_not_linked(at: Slice) -> Verdict | None:
    """Tensor parallel exchanges activations in every layer: over PCIe that is slow."""
    gpus, link = at.entry.engine.tensor_parallel, at.gpu.nvlink
    if gpus == 1 or at.gpu.mig_profile is not None or link not in ("none", "bridge"):
        return None
    if link == "bridge" and gpus <= _BRIDGED:
        return None
    why = "has no NVLink" if link == "none" else f"has NVLink between {_BRIDGED} GPUs at most"
    field = f"{at.path}.tensorParallel"
    largest = 1 if link == "none" else _BRIDGED
    sizes = [n for n in nearest.narrower(at.model, gpus) if n <= largest]
    return _of(
        at,
        Reason.GPUS_NOT_LINKED,
        Severity.WARN,
        f"{at.gpu.product} {why}, and tensorParallel {gpus} exchanges activations twice in every "
        f"layer{_exchange(at)}",
        field,
        tuple(nearest.change(field, sizes, at.with_field, lambda _: "fits")),
    )


def _exchange(at: Slice) -> str:
    """Say what the exchange of a thousand tokens costs over PCIe, beside computing them."""
    host, hidden = host_links.of(at.gpu), at.model.hidden_size
    computed = speed.prefill_seconds(at, _SAMPLE_TOKENS)
    if host is None or hidden is None or computed is None:
        return ""
    gpus = at.entry.engine.tensor_parallel
    # a ring sends (n - 1) / n of the data twice, in 16 bits, after attention and after the MLP
    moved_bytes = 2 * at.model.layer_count * _SAMPLE_TOKENS * hidden * 2 * 2 * (gpus - 1) // gpus
    seconds = moved_bytes / host.bytes_per_second
    return (
        f": {size(moved_bytes)} for {_SAMPLE_TOKENS:,} prompt tokens, at least {duration(seconds)} "
        f"over {host.name} beside {between(*computed)} of computing"
    )


def _of(
    at: Slice,
    reason: Reason,
    severity: Severity,
    message: str,
    field: str,
    changes: tuple[Change, ...] = (),
) -> Verdict:
    name = at.entry.node_class.name
    return Verdict(reason, severity, message, field, changes, at.entry.pool, name)


def _spell(capability: Capability) -> str:
    return "{}.{}".format(*capability)
