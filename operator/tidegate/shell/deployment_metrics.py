"""The metrics of each deployment, from its status: what is gone from it is gone from them."""

from tidegate.api.conditions import ConditionType
from tidegate.flow.ports import Document, Ref
from tidegate.shell.telemetry import Metrics

_RENDERING = str(ConditionType.RENDERING_CURRENT)
_SliceLabels = tuple[str, str, str, str]


class DeploymentMetrics:
    """Shows deployments and their slices, and forgets them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._shown: dict[Ref, set[_SliceLabels]] = {}

    def tell(self, ref: Ref, status: Document) -> None:
        """Show a deployment as its status has it."""
        labels = (ref.namespace, ref.name)
        ready = [c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"]
        self._metrics.ready.labels(*labels).set(ready == ["True"])
        waiting = [c["status"] for c in status.get("conditions", ()) if c["type"] == _RENDERING]
        self._metrics.rendering_waits.labels(*labels).set(waiting == ["False"])
        self._metrics.kv_tokens.labels(*labels).set(status.get("kvTokens") or 0)
        measured = {
            (*labels, entry["pool"], entry["nodeClass"]): entry["measured"]
            for entry in status.get("plan") or ()
            if entry.get("measured")
        }
        for slice_labels, told in measured.items():
            self._metrics.measured_kv_tokens.labels(*slice_labels).set(told["kvTokens"])
            self._metrics.budget_drift.labels(*slice_labels).set(told["driftPercent"] / 100)
        self._hide(self._shown.pop(ref, set()) - set(measured))
        if measured:
            self._shown[ref] = set(measured)

    def forget(self, ref: Ref) -> None:
        """Show a deployment no more."""
        metrics = self._metrics
        for gauge in (metrics.ready, metrics.rendering_waits, metrics.kv_tokens):
            gauge.remove(ref.namespace, ref.name)
        self._hide(self._shown.pop(ref, set()))

    def _hide(self, gone: set[_SliceLabels]) -> None:
        for labels in gone:
            self._metrics.measured_kv_tokens.remove(*labels)
            self._metrics.budget_drift.remove(*labels)
