"""Gates that are behind: each takes a new configuration a moment after it was written.

Until that moment is over there is nothing to tell of it, and no clients go without.
"""

from collections.abc import Iterable

from tidegate.core import gate_renewal
from tidegate.flow.gather import Snapshot
from tidegate.flow.memory import HeardGate


def serves(of: HeardGate, snapshot: Snapshot) -> bool:
    """Say whether a gate has told that it serves the current spec."""
    return of.told is not None and of.told.generation == snapshot.identity[1]


def is_in_time(
    heard: Iterable[HeardGate], snapshot: Snapshot, now: float, grace_seconds: float
) -> bool:
    """Note since when gates are behind; say whether one of them has time left to follow.

    It begins when the ConfigMap has the current spec: while that cannot be planned no gate is late.
    A gate that has no configuration at all serves nobody, and is not given any.

    Args:
        heard: What is known of the ready gates.
        snapshot: The cluster as it is.
        now: Monotonic.
        grace_seconds: How long a gate may take.
    """
    behind = []
    for of in heard:
        if of.told is None or of.told.generation is None or serves(of, snapshot):
            of.behind_since = None
        else:
            behind.append(of)
    if not behind:
        return False
    if not _is_written(snapshot):
        for of in behind:
            of.behind_since = None
        return True
    for of in behind:
        of.behind_since = now if of.behind_since is None else of.behind_since
    return any(now - (of.behind_since or now) < grace_seconds for of in behind)


def _is_written(snapshot: Snapshot) -> bool:
    config = gate_renewal.read(snapshot.gate_config or {})
    return config is not None and config.generation == snapshot.identity[1]
