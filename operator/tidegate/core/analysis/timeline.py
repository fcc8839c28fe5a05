"""The intervals of two sides as pairs of the same time, and whether anything still comes."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.analysis.evidence import Evidence

SHORTEST_SECONDS = 30
MOST_INTERVALS = 120
RECENT_INTERVALS = 60
"""The last ones stay short however long it takes, so that what begins now is seen now."""
_EXPECTED_IN_SILENCE = 8.0


@dataclass(frozen=True)
class Pair:
    """Both sides in one interval."""

    canary: Evidence
    baseline: Evidence


def interval_seconds(elapsed_seconds: float, shortest_seconds: int = SHORTEST_SECONDS) -> int:
    """Return how long intervals should be for evidence of that length.

    It doubles as time passes, so that a judgement costs milliseconds after days as well.
    """
    seconds = shortest_seconds
    while seconds * MOST_INTERVALS < elapsed_seconds:
        seconds *= 2
    return seconds


def parts(
    elapsed_seconds: float, shortest_seconds: int = SHORTEST_SECONDS
) -> tuple[tuple[float, int], ...]:
    """Return after how many seconds intervals of which length begin, in the order of time.

    Old intervals get longer as time passes, recent ones do not.
    """
    longer = interval_seconds(elapsed_seconds, shortest_seconds)
    if longer == shortest_seconds:
        return ((0.0, shortest_seconds),)
    old = (elapsed_seconds - RECENT_INTERVALS * shortest_seconds) // longer
    return (0.0, longer), (longer * old, shortest_seconds)


def align(canary: Sequence[Evidence], baseline: Sequence[Evidence]) -> list[Pair]:
    """Return the intervals that both sides have, in the order of time."""
    others = {evidence.at: evidence for evidence in baseline}
    pairs = [Pair(one, others[one.at]) for one in canary if one.at in others]
    return sorted(pairs, key=lambda pair: pair.canary.at)


def silent_seconds(evidences: Sequence[Evidence]) -> float:
    """Return for how long nothing has come from a side that had traffic; 0 while it may be chance.

    Silence is no chance once about eight requests would have come in it at the rate before.
    What is not known in the last intervals counts as silence, too.
    """
    quiet = 0.0
    for evidence in reversed(evidences):
        if evidence.requests:
            break
        quiet += evidence.seconds
    whole = sum(evidence.seconds for evidence in evidences)
    requests = sum(evidence.requests or 0.0 for evidence in evidences)
    if whole <= quiet or requests * quiet / (whole - quiet) < _EXPECTED_IN_SILENCE:
        return 0.0
    return quiet
