"""Does the card have what the configuration asks of it: types, links, whole devices."""

from tidegate.api.reasons import Reason
from tidegate.core import class_limits
from tidegate.core.budget import kv_dtypes, parallelism
from tidegate.core.checks import nearest, speed
from tidegate.core.checks.subject import Slice
from tidegate.core.checks.verdict import Severity, Verdict, between, duration, size
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
    return at.verdict(
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
    return at.verdict(
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
    return at.verdict(
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

    return at.verdict(
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
    return at.verdict(
        Reason.GPUS_NOT_LINKED,
        Severity.WARN,
        f"{at.gpu.product} {why}, and tensorParallel {gpus} exchanges activations twice in every "
        f"layer{_exchange(at)}",
        field,
        tuple(nearest.change(field, sizes, at.with_field, lambda _: "fits")),
    )


def group_crosses_islands(at: Slice) -> Verdict | None:
    """GPUs that exchange activations are on both sides of a slow link; unknown is no violation."""
    gpus, island = at.entry.engine.tensor_parallel, at.entry.node_class.gpus_per_island
    if island is None or not _crosses(at):
        return None
    if gpus > island:
        parts = [island] * (gpus // island) + ([gpus % island] if gpus % island else [])
        evenly = "" if len(set(parts)) == 1 else " unevenly"
        why = f"spans {len(parts)} islands{evenly} ({' + '.join(map(str, parts))} GPUs)"
    else:
        why = f"fits {island // gpus} times into an island of {island} GPUs, and the rest spans two"
    field = f"{at.path}.tensorParallel"
    sizes = sorted(parallelism.choices(at.model), key=lambda n: (abs(n - gpus), n))

    def stays(found: Slice) -> str | None:
        return None if _crosses(found) else f"stays within an island of {island} GPUs"

    return at.verdict(
        Reason.GPUS_NOT_LINKED,
        Severity.WARN,
        f"tensorParallel {gpus} {why}: activations are exchanged twice in every layer between "
        f"them{_exchange(at)}",
        field,
        tuple(nearest.change(field, sizes, at.with_field, stays)),
    )


def _crosses(at: Slice) -> bool:
    """Tell whether a node that is full of pods has a group of GPUs that no island holds."""
    gpus, island = at.entry.engine.tensor_parallel, at.entry.node_class.gpus_per_island
    whole = at.entry.node_class.gpus_per_node
    if island is None or gpus == 1:
        return False
    within = whole // island * (island // gpus) + whole % island // gpus
    return gpus > island or within < whole // gpus


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


def _spell(capability: Capability) -> str:
    return "{}.{}".format(*capability)
