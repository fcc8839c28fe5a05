"""Engines of a rollout that ended by themselves: seen in their pods, counted by interval.

A pod tells how often its container was restarted, and when and why only of the last end. So ends
are collected from pass to pass; a process that begins knows the last one of each pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core import causes
from tidegate.core.analysis.evidence import Evidence
from tidegate.core.causes import Cause, containers
from tidegate.core.names import LABEL_REVISION

MOST_ENDS = 1000
"""Ends that are kept; the oldest go first. A canary is taken back after a few."""

Ends = Mapping[tuple[str, int], "End"]
"""Ends by the pod's uid and how many there had been of it, this one included."""


@dataclass(frozen=True)
class End:
    """One end of an engine: of which revision, when (seconds since 1970), and why."""

    revision: str
    at: float
    cause: str


def seen(
    before: Ends,
    pods: Iterable[Mapping[str, Any]],
    known: Mapping[str, Cause | None],
    now: float,
    revisions: frozenset[str],
) -> Ends:
    """Return the ends with those that pods tell of for the first time.

    Args:
        before: What was known.
        pods: The engines' pods. One that is being deleted was asked to end.
        known: Causes by `causes.log_key`.
        now: When an end is taken to have been that has no time.
        revisions: Whose ends are of interest; others are dropped.
    """
    found = {key: end for key, end in before.items() if end.revision in revisions}
    for pod in pods:
        revision = (pod["metadata"].get("labels") or {}).get(LABEL_REVISION, "")
        if revision in revisions and not causes.is_leaving(pod):
            found |= _of_pod(found, pod, revision, known, now)
    newest = sorted(found, key=lambda key: found[key].at)[-MOST_ENDS:]
    return {key: found[key] for key in newest}


def with_restarts(side: Iterable[Evidence], ends: Ends, revision: str) -> tuple[Evidence, ...]:
    """Return a side's intervals with the ends of its engines in them."""
    own = [end for end in ends.values() if end.revision == revision]
    return tuple(replace(one, restarts=_within(own, one)) for one in side)


def _of_pod(
    before: Ends,
    pod: Mapping[str, Any],
    revision: str,
    known: Mapping[str, Cause | None],
    now: float,
) -> dict[tuple[str, int], End]:
    engine = containers.read(pod)
    if engine is None or engine.last_end is None:
        return {}
    uid = pod["metadata"]["uid"]
    number = engine.restarts + (engine.ended is not None)
    told = max((count for of, count in before if of == uid), default=number - 1)
    cause = causes.of_restart(known.get(causes.log_key(pod)), engine)
    at = engine.last_end.finished_at
    end = End(revision, now if at is None else at, cause.value)
    return {(uid, count): end for count in range(max(told, number - MOST_ENDS) + 1, number + 1)}


def _within(ends: Iterable[End], interval: Evidence) -> dict[str, float]:
    counts: dict[str, float] = {}
    for end in ends:
        if interval.at <= end.at < interval.at + interval.seconds:
            counts[end.cause] = counts.get(end.cause, 0.0) + 1
    return counts
