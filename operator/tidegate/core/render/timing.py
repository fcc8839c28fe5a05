"""When an engine pod counts as started, ready, alive and ended, in seconds, and why these.

Sources: `/health` and `/metrics` share an event loop with tokenisation, and freeze for the length
of a long step; an engine that was told to stop answers at once with an empty, aborted completion,
so traffic has to stop first; it aborts what it has after --shutdown-timeout; its own teardown took
4 s (all observed with vLLM 0.32).
"""

import math
from dataclasses import dataclass

from tidegate.api.engine_spec import Transfer

PROBE_PERIOD_SECONDS = 5
PROBE_TIMEOUT_SECONDS = 5
STARTUP_FAILURES = 480
STARTUP_SECONDS = PROBE_PERIOD_SECONDS * STARTUP_FAILURES
"""40 minutes: twice a slow load of a large model, and under the rollout's default deadline."""
READINESS_FAILURES = 6
"""30 s without an answer: a busy engine keeps its endpoint, a dead one loses it on exit anyway."""

LIVENESS_PERIOD_SECONDS = 10
LIVENESS_TIMEOUT_SECONDS = 10
LIVENESS_FAILURES = 18
"""3 minutes of silence: longer than any step, and an engine whose port closed is not waited for."""
HUNG_GRACE_SECONDS = 30
"""What an engine that failed its liveness probe gets before it is killed: it drains nothing."""

_ENDPOINT_SECONDS = 10
"""Until everybody who sends requests has seen that the pod is leaving."""
_LEASE_MARGIN_SECONDS = 5
_DRAIN_SECONDS = {"prefill": 60, "decode": 300, "unified": 300}
"""For what is in flight: a prompt is read in seconds, an answer is written in minutes."""
_TEARDOWN_SECONDS = 15


@dataclass(frozen=True)
class Ending:
    """How a pod ends: it waits, it is told to stop and drains, it is killed at the end of grace."""

    pre_stop_seconds: int
    shutdown_seconds: int

    @property
    def grace_seconds(self) -> int:
        """What Kubernetes allows for all of it, with the engine's own teardown."""
        return self.pre_stop_seconds + self.shutdown_seconds + _TEARDOWN_SECONDS


def ending(pool: str, transfer: Transfer) -> Ending:
    """Return how a pool's pods end.

    A prefill pod stays for as long as a decode pod may still fetch KV from it: its shutdown does
    not wait for that.
    """
    wait = _ENDPOINT_SECONDS
    if pool == "prefill":
        wait = max(wait, math.ceil(transfer.lease) + _LEASE_MARGIN_SECONDS)
    return Ending(pre_stop_seconds=wait, shutdown_seconds=_DRAIN_SECONDS[pool])
