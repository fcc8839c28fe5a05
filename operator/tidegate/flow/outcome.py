"""How a pass ended, for the shell's queue and metrics."""

from dataclasses import dataclass
from typing import Literal

Result = Literal["settled", "moving", "waiting", "refused", "stale", "failed", "gone"]


@dataclass(frozen=True)
class Outcome:
    """What became of a pass, and after how long another one is wanted; None: when woken.

    `stale`: the caches are behind, nothing was written. `failed`: a call failed, it is tried again.
    `why` says what stood in the way, where something did; `notes` are sentences for the log.
    """

    result: Result
    requeue_seconds: float | None = None
    why: str = ""
    notes: tuple[str, ...] = ()


GONE = Outcome("gone")
STALE = Outcome("stale", 1.0)
FAILED = Outcome("failed", 5.0)
