"""Every change of a deployment's pods, as a watch tells it: nothing in between is missed."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from e2e.kube import Document, path
from e2e.llmd import OWN, POOL, REVISION, Llmd, is_ready

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Moment:
    """The pods after one change, by (pool, revision).

    `there` are those that are not leaving, `ready` those of them that serve: the gate sends
    nothing to a leaving pod. One whose containers have ended counts as gone: it holds no GPU.
    """

    ready: Counter[tuple[str, str]]
    there: Counter[tuple[str, str]]
    leaving: Counter[tuple[str, str]]

    def ready_in(self, pool: str) -> int:
        """Ready pods of a pool, of any revision."""
        return sum(count for (name, _), count in self.ready.items() if name == pool)

    def there_in(self, pool: str) -> int:
        """Pods of a pool that are not leaving, of any revision."""
        return sum(count for (name, _), count in self.there.items() if name == pool)

    def all_revisions(self) -> set[str]:
        """Revisions that have a pod, be it a leaving one."""
        return {revision for _, revision in +(self.there + self.leaving)}

    def complete(self, pools: set[str]) -> set[str]:
        """Return the revisions that have a ready pod in each of some pools."""
        revisions = {revision for _, revision in +self.ready}
        return {r for r in revisions if all(self.ready[pool, r] for pool in pools)}


class RolloutWatch:
    """Records what the pods of a deployment went through; a context manager around the change."""

    def __init__(self, llmd: Llmd) -> None:
        self._llmd = llmd
        self._pods: dict[str, Document] = {}
        self._changed = threading.Condition()
        self._ended = False
        self.moments: list[Moment] = []
        self.made: dict[str, tuple[str, str]] = {}
        """Every pod that was ever there, by its uid: pool and revision."""

    def __enter__(self) -> Self:
        place = path("pods", self._llmd.namespace)
        answer = self._llmd.kube.request("GET", place)
        for pod in answer["items"]:
            self._take("ADDED", pod)
        self.moments = self.moments[-1:]
        version = answer["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(place, version), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True

    def least_ready(self, pool: str) -> int:
        """Return the fewest ready pods that the pool ever had."""
        return min(moment.ready_in(pool) for moment in self.moments)

    def most_there(self, pool: str) -> int:
        """Return the most pods that the pool ever had."""
        return max(moment.there_in(pool) for moment in self.moments)

    def wait(self, what: str, holds: Callable[[Moment], bool], seconds: float) -> Moment:
        """Wait for a moment; one that has passed already counts."""
        with self._changed:
            done = self._changed.wait_for(lambda: any(map(holds, self.moments)), seconds)
            assert done, f"not within {seconds:.0f} s: {what}; last: {self.moments[-1:]}"
            return next(moment for moment in self.moments if holds(moment))

    def _follow(self, place: str, version: str) -> None:
        for event in self._llmd.kube.watch(place, version):
            if self._ended:
                return
            if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                self._take(event["type"], event["object"])

    def _take(self, kind: str, pod: Document) -> None:
        labels = pod["metadata"].get("labels") or {}
        if labels.get(OWN) != self._llmd.name or POOL not in labels:
            return
        with self._changed:
            self.made[pod["metadata"]["uid"]] = (labels[POOL], labels[REVISION])
            if kind == "DELETED" or pod["status"].get("phase") in _ENDED:
                self._pods.pop(pod["metadata"]["uid"], None)
            else:
                self._pods[pod["metadata"]["uid"]] = pod
            self.moments.append(self._moment())
            self._changed.notify_all()

    def _moment(self) -> Moment:
        ready: Counter[tuple[str, str]] = Counter()
        there: Counter[tuple[str, str]] = Counter()
        leaving: Counter[tuple[str, str]] = Counter()
        for pod in self._pods.values():
            labels = pod["metadata"]["labels"]
            place = (labels[POOL], labels[REVISION])
            if "deletionTimestamp" in pod["metadata"]:
                leaving[place] += 1
            else:
                there[place] += 1
                ready[place] += is_ready(pod)
        return Moment(ready, there, leaving)
