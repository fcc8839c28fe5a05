"""KV in host memory, a last resort: is there so much memory, and is the way back worth it."""

from tidegate.api.quantities import parse_quantity, spell_bytes
from tidegate.api.reasons import Reason
from tidegate.core import host_memory
from tidegate.core.budget import groups as kv_groups
from tidegate.core.budget.groups import Group
from tidegate.core.checks import nearest, speed
from tidegate.core.checks.subject import Slice
from tidegate.core.checks.verdict import Change, Severity, Value, Verdict, between, size

_FIELD = "spec.kvCache.offload.cpu"
_GIB = 2**30


def offload_exceeds_the_node(at: Slice) -> Verdict | None:
    """The smallest node of the class has not so much memory for all pods that its GPUs take.

    A warning only: they may land on other nodes. A class without a node for one is not planned.
    """
    smallest = _node_memory(at)
    if not _offloads(at) or smallest is None:
        return None
    taken = host_memory.shared_bytes(at.spec, at.entry.gpus)
    pods = max(1, at.entry.node_class.gpus_per_node // at.entry.gpus)
    if taken * pods < smallest:
        return None
    return at.verdict(
        Reason.OFFLOAD_TOO_LARGE,
        Severity.WARN,
        f"a pod takes {size(taken)} of host memory for offloaded KV and shared memory, a node of "
        f"{at.entry.node_class.product} holds {pods} pods by its GPUs, and the smallest has "
        f"{size(smallest)}",
        _FIELD,
        _less(at, smallest, pods),
    )


def node_memory_is_unknown(at: Slice) -> Verdict | None:
    """Without the node's memory the offload cannot be bounded."""
    if not _offloads(at) or _node_memory(at) is not None:
        return None
    return at.verdict(
        Reason.OFFLOAD_PRICED,
        Severity.INFORM,
        f"the memory of {at.entry.node_class.product} nodes is not told, so it is not known "
        f"whether they have {size(host_memory.shared_bytes(at.spec, at.entry.gpus))} for a pod",
        _FIELD,
    )


def offload_is_not_requested(at: Slice) -> Verdict | None:
    """The scheduler does not know of memory that a pod does not request."""
    if not _offloads(at):
        return None
    resources = at.pool.resources
    asked = resources.requests.get("memory") or resources.limits.get("memory")
    taken = host_memory.shared_bytes(at.spec, at.entry.gpus)
    if asked is not None and parse_quantity(asked) > taken:
        return None
    field = f"{at.path}.resources.requests.memory"
    enough = spell_bytes(-(-taken // _GIB) * _GIB + _GIB)
    return at.verdict(
        Reason.HOST_MEMORY_NOT_REQUESTED,
        Severity.WARN,
        f"the engine takes {size(taken)} of host memory for offloaded KV and shared memory, and "
        f"the pod requests {asked or 'none'}: the scheduler may put it where there is less",
        field,
        tuple(nearest.change(field, [enough], at.with_field, lambda _: "is the least")),
    )


def offload_needs_prefix_caching(at: Slice) -> Verdict | None:
    """Recurrent layers' blocks and attention's are cut alike only where prefixes are cached.

    The engine compares them at its start, when it looks for offloaded blocks by their hashes.
    """
    is_recurrent = any(_keeps_state(group) for group in at.entry.sizing.pool.groups)
    if not _offloads(at) or at.entry.engine.prefix_caching or not is_recurrent:
        return None
    field = "spec.engine.prefixCaching"
    return at.verdict(
        Reason.OFFLOAD_UNSUPPORTED,
        Severity.REFUSE,
        "the engine does not start with offload and without prefix caching for a model with "
        "recurrent layers",
        field,
        tuple(nearest.change(field, [True], at.with_field, lambda _: "works")),
    )


def offload_does_not_pay(at: Slice) -> Verdict | None:
    """Reading a context back takes as long as computing it again."""
    band = _way_back(at)
    if band is None or band[0] < band[1]:
        return None
    return at.verdict(Reason.OFFLOAD_DOES_NOT_PAY, Severity.WARN, _price(at), _FIELD)


def offload_priced(at: Slice) -> Verdict | None:
    """What the way back costs, beside computing again, and how much the tier holds."""
    band = _way_back(at)
    if band is None or band[0] >= band[1]:
        return None
    return at.verdict(Reason.OFFLOAD_PRICED, Severity.INFORM, _price(at), _FIELD)


def _way_back(at: Slice) -> tuple[float, float] | None:
    """Return the slowest way back, and the fastest computation; None where one is not known."""
    tokens = _context(at)
    loaded, computed = speed.reload_seconds(at, tokens), speed.prefill_seconds(at, tokens)
    if not _offloads(at) or loaded is None or computed is None:
        return None
    return loaded[1], computed[0]


def _price(at: Slice) -> str:
    tokens = _context(at)
    loaded, computed = speed.reload_seconds(at, tokens), speed.prefill_seconds(at, tokens)
    assert loaded is not None  # the callers looked
    assert computed is not None
    each = at.entry.sizing.pool.bytes_per_token * at.entry.gpus
    there = host_memory.offload_bytes(at.spec)
    holds = there // max(1, each)
    return (
        f"{size(there)} of host memory hold at least {holds:,} tokens; "
        f"a context of {tokens:,} comes back in {between(*loaded)}, beside {between(*computed)} of "
        "computing it again"
    )


def _context(at: Slice) -> int:
    workload = at.spec.workload
    if workload is None:
        return at.entry.engine.max_model_len
    answer = 0 if at.entry.pool == "prefill" else workload.output_tokens.p95
    return workload.prompt_tokens.p95 + answer


def _less(at: Slice, there: int, pods: int) -> tuple[Change, ...]:
    """Return the largest offload, in whole GiB, of which `pods` pods fit into `there` bytes."""
    other = host_memory.shared_bytes(at.spec, at.entry.gpus) - host_memory.offload_bytes(at.spec)
    gibs = ((there - 1) // pods - other) // _GIB
    values: list[Value] = [f"{gibs}Gi"] if gibs > 0 else []
    return tuple(nearest.change(_FIELD, values, at.with_field, lambda _: "fits"))


def _keeps_state(group: Group) -> bool:
    """Tell whether a request of any length takes the same blocks, as a recurrent state does."""
    return group.blocks_of(1) == group.blocks_of(kv_groups.LONGEST)


def _offloads(at: Slice) -> bool:
    return at.spec.kv_cache.offload is not None


def _node_memory(at: Slice) -> int | None:
    """Return the least memory of the class's nodes; None where one of them does not tell."""
    found = [node.memory_bytes for node in at.nodes]
    known = [memory for memory in found if memory is not None]
    return min(known) if known and len(known) == len(found) else None
