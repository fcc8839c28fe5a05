"""Does a request get through prefill and decode: a pair can be ready and answer every one with 500.

Pairs are of one revision, as traffic is. A gate sends one small request through each, once for each
set of slices that have ready pods, and again after a while where it failed.
"""

from collections.abc import Sequence
from dataclasses import replace

from tidegate.core.rollout.board import PAIR
from tidegate.core.status import GatesSeen
from tidegate.flow import slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import Memory, TriedPair
from tidegate.flow.ports import Clock, Document, Gates, ReadFailed

_FAILURES_THAT_COUNT = 2
"""One request may meet a pod that is just leaving."""
_AGAIN_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 300.0
_DOUBLINGS = 10
_NEVER = float("inf")


async def carry_out(
    snapshot: Snapshot, serving: Sequence[Document], gates: Gates, clock: Clock, memory: Memory
) -> dict[str, TriedPair]:
    """Try, by one of the gates that serve, what is not proven; return all pairs by revision."""
    pairs = _there(snapshot, memory)
    for revision, pair in pairs.items():
        if not pair.is_ok and clock.monotonic() >= pair.try_at:
            await _try(revision, pair, serving, gates, clock)
    return pairs


async def _try(
    revision: str, pair: TriedPair, serving: Sequence[Document], gates: Gates, clock: Clock
) -> None:
    """Try one pair; a gate that does not answer proves nothing."""
    wait_seconds = _AGAIN_SECONDS
    try:
        tried = await gates.try_pair(serving[0], revision) if serving else None
    except ReadFailed as error:
        tried, pair.error = None, str(error)
    if tried is not None and tried.is_ok:
        pair.is_ok, wait_seconds = True, _NEVER
    elif tried is not None:
        pair.failures += 1
        way = f"from {tried.prefill or 'prefill'} to {tried.decode or 'decode'}"
        pair.error = f"revision {revision}, {way}: {tried.error}"
        doubled = _AGAIN_SECONDS * 2 ** min(pair.failures, _DOUBLINGS)
        wait_seconds = min(doubled, _LONGEST_WAIT_SECONDS)
    pair.try_at = clock.monotonic() + wait_seconds


def told(seen: GatesSeen, pairs: dict[str, TriedPair]) -> GatesSeen:
    """Add to what is seen of the gates which pairs are not tried yet, and which do not work."""
    failing = {name for name, of in pairs.items() if of.failures >= _FAILURES_THAT_COUNT}
    unproven = {name for name, of in pairs.items() if not of.is_ok}
    return replace(
        seen,
        untried=tuple(
            f"{name} ({pairs[name].error})" if pairs[name].error else name
            for name in sorted(unproven - failing)
        ),
        incompatible=tuple(pairs[name].error for name in sorted(unproven & failing)),
        is_proven=len(unproven) < len(pairs) or not pairs,
    )


def _there(snapshot: Snapshot, memory: Memory) -> dict[str, TriedPair]:
    """Return the pairs of ready pods by revision; proof of more slices is proof of fewer."""
    there: dict[str, set[tuple[str, str]]] = {}
    for pod in slices.ready_pods(snapshot.pods):
        pool, revision, node_class = slices.slice_of(pod)
        there.setdefault(revision, set()).add((pool, node_class))
    before, pairs = memory.pairs.get(snapshot.ref, {}), {}
    for revision, found in there.items():
        if not {pool for pool, _ in found} >= PAIR:
            continue
        known = before.get(revision)
        if known is None or not (known.slices == found or (known.is_ok and found < known.slices)):
            known = TriedPair(frozenset(found))
        pairs[revision] = known
    memory.pairs[snapshot.ref] = pairs
    return pairs
