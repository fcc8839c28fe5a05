"""Restarts of engines by cause, counted from what each pass saw of the pods."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter

from tidegate.core import causes
from tidegate.core.causes import Cause, containers
from tidegate.core.names import LABEL_POOL, LABEL_REVISION
from tidegate.flow.ports import Document, Ref

_OF = ("namespace", "llmdeployment")


class RestartMetrics:
    """Counts the restarts of engines' containers.

    A pod that is there when the operator starts has its earlier restarts behind it: they are not
    counted again. The cause is the one that the pass found, with the log of the engine's end where
    it needed one.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counter = Counter(
            "tidegate_engine_restarts",
            "Restarts of engines' containers, by why the one before ended.",
            [*_OF, "pool", "revision", "cause"],
            registry=registry,
        )
        self._seen: dict[Ref, dict[str, int]] = {}

    def tell(self, ref: Ref, pods: Iterable[Document], known: Mapping[str, Cause | None]) -> None:
        """Count what is new of a deployment's pods.

        Args:
            ref: The deployment.
            pods: Its engines' pods.
            known: Causes by `causes.log_key`, as the pass found them.
        """
        before = self._seen.get(ref)
        now: dict[str, int] = {}
        for pod in pods:
            engine = containers.read(pod)
            labels = pod["metadata"].get("labels") or {}
            if engine is None or LABEL_POOL not in labels:
                continue
            uid = pod["metadata"]["uid"]
            now[uid] = engine.restarts
            first = engine.restarts if before is None else 0
            more = engine.restarts - (before or {}).get(uid, first)
            if more > 0:
                cause = known.get(causes.log_key(pod)) or causes.of_pod(pod)
                place = (labels[LABEL_POOL], labels.get(LABEL_REVISION, ""))
                self._counter.labels(*_place(ref), *place, causes.of_restart(cause, engine)).inc(
                    more
                )
        self._seen[ref] = now

    def forget(self, ref: Ref) -> None:
        """Show a deployment no more."""
        if self._seen.pop(ref, None) is not None:
            self._counter.remove_by_labels(dict(zip(_OF, _place(ref), strict=True)))


def _place(ref: Ref) -> tuple[str, str]:
    """Return the values of the labels that name a deployment."""
    return ref.namespace, ref.name
