"""Every state of a rollout, as a watch tells it, with the moment when it was told."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from e2e.kube import Document, path
from e2e.llmd import Llmd


@dataclass(frozen=True)
class Told:
    """One `status.rollout`, and when it came, in monotonic seconds."""

    at: float
    rollout: Document


class RolloutStates:
    """Records `status.rollout` of a deployment; a context manager around what changes it."""

    def __init__(self, llmd: Llmd) -> None:
        self._llmd = llmd
        self._changed = threading.Condition()
        self.told: list[Told] = []

    def __enter__(self) -> Self:
        place = path("llmdeployments", self._llmd.namespace)
        version = self._llmd.kube.request("GET", place)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(place, version), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the watch to its end: it records into nobody's hands."""

    def wait(self, what: str, holds: Callable[[Document], bool], seconds: float) -> Told:
        """Wait for a state; one that has passed already counts."""
        with self._changed:
            found = self._changed.wait_for(lambda: self._first(holds), seconds)
            last = [told.rollout for told in self.told[-1:]]
            assert found is not None, f"not within {seconds:.0f} s: {what}; last: {last}"
            return found

    def _first(self, holds: Callable[[Document], bool]) -> Told | None:
        return next((told for told in self.told if holds(told.rollout)), None)

    def _follow(self, place: str, version: str) -> None:
        for event in self._llmd.kube.watch(place, version):
            document = event["object"]
            if document["metadata"].get("name") != self._llmd.name:
                continue
            rollout = (document.get("status") or {}).get("rollout")
            if rollout:
                with self._changed:
                    self.told.append(Told(time.monotonic(), rollout))
                    self._changed.notify_all()
