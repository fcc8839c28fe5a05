"""The core's state as it is shown."""

from collections.abc import Sequence

from tidegate.api.gate_config import GateConfig, PoolName, ShedShare, ShiftShare
from tidegate.gate.core.queue import Queue
from tidegate.gate.exchange import PodView, View


def view(config: GateConfig | None, pods: Sequence[PodView], queue: Queue, wall: float) -> View:
    """Put the parts together; `wall` is seconds since 1970."""
    return View(
        pods=pods,
        queued=len(queue),
        queued_by_priority=queue.by_priority(),
        queued_prompt_tokens=_prompt_tokens(config, pods, queue),
        shed_percent=_percent(config.shed if config else None, wall),
        shift_percent=_percent(config.shift if config else None, wall),
    )


def _prompt_tokens(
    config: GateConfig | None, pods: Sequence[PodView], queue: Queue
) -> dict[PoolName, int]:
    """Return what waits for the pool that prefills now; 0 for one that did and still has pods."""
    if config is None:
        return {}
    waiting: dict[PoolName, int] = {
        entry.pod.pool: 0 for entry in pods if entry.pod.pool != "decode"
    }
    waiting["prefill" if config.is_pair else "unified"] = queue.prompt_tokens()
    return waiting


def _percent(share: ShedShare | ShiftShare | None, wall: float) -> float:
    """Return a share's percent, 0 once it has lapsed."""
    if share is None or (share.until is not None and wall >= share.until.timestamp()):
        return 0.0
    return float(share.percent)
