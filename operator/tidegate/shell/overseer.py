"""The slow loop as a task of the leader: a tick, then those are woken whose shares have changed."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from tidegate.api.reasons import Reason
from tidegate.flow import overload
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Clock, Cluster, Metrics, Ref, Settings
from tidegate.shell.overload_metrics import OverloadMetrics

_LOG = logging.getLogger(__name__)
_LEAST_SECONDS = 0.5
"""Between two ticks, however fast somebody changes a spec."""


class Overseer:
    """Ticks on and on; a slow or silent Prometheus makes its ticks late, and nothing else."""

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        clock: Clock,
        settings: Settings,
        shown: OverloadMetrics,
        wake: Callable[[Ref], None],
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._clock = clock
        self._settings = settings
        self._shown = shown
        self._wake = wake
        self._silence = ""
        self._memory: Memory | None = None
        self._is_early = asyncio.Event()

    async def run(self, memory: Memory) -> None:
        """Tick until cancelled, by what this time of leadership remembers."""
        self._memory = memory
        try:
            while True:
                begun = time.monotonic()
                self._is_early.clear()
                await self._tick(memory)
                seconds = time.monotonic() - begun
                self._shown.tick_seconds.observe(seconds)
                await self._rest(max(0.0, self._settings.tick.interval_seconds - seconds))
        finally:
            self._memory = None
            self._shown.keep_only(set())  # the next leader tells of them

    def notice(self, ref: Ref) -> None:
        """Tick soon if a deployment's spec is another than at the last tick: it may be a lever."""
        if self._memory is None:
            return
        document = self._cluster.deployment(ref)
        known = self._memory.overload.specs.get(ref)
        if document is not None and known is not None:
            metadata = document["metadata"]
            if known[0] != (metadata["uid"], metadata["generation"]):
                self._is_early.set()

    async def _rest(self, seconds: float) -> None:
        """Wait for the next tick, less long when a spec has changed."""
        least = min(seconds, _LEAST_SECONDS)
        await asyncio.sleep(least)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - least):
                await self._is_early.wait()

    async def _tick(self, memory: Memory) -> None:
        try:
            ticked = await overload.tick(
                self._cluster, self._metrics, self._clock, self._settings, memory
            )
        except Exception:  # a bug must not end the passes: the shares lapse at the gates
            _LOG.exception("a tick of the overload loop failed")
            self._shown.ticks.labels("failed").inc()
            return
        for ref, error in ticked.failed.items():
            _LOG.error("overload: %s failed", ref, exc_info=error)
        self._note(bool(ticked.failed))
        for ref, seen in memory.overload.seen.items():
            self._shown.tell(ref, seen)
        self._shown.keep_only(set(memory.overload.seen))
        for ref in ticked.wake:
            self._wake(ref)

    def _note(self, has_failed: bool) -> None:
        """Count the tick, and log when Prometheus falls silent and when it is back."""
        silent = self._metrics.why_silent()
        self._shown.ticks.labels("failed" if has_failed else "silent" if silent else "good").inc()
        silence = str(silent.reason) if silent else ""
        if silence != self._silence:
            is_fault = silent is not None and silent.reason is not Reason.METRICS_UNCONFIGURED
            why = silent.message if silent else "Prometheus answers again"
            _LOG.log(logging.WARNING if is_fault else logging.INFO, "overload: %s", why)
        self._silence = silence
