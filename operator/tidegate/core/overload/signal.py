"""What Prometheus tells of a pool: a value with the time of its sample, or why there is none.

No data is not zero: whatever keeps a value from being known is an `Unknown` with its reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tidegate.api.gate_config import PoolName
from tidegate.api.reasons import Reason


class Signal(StrEnum):
    """What is looked at, by the names of `spec.overload`.

    Attributes:
        KV_USAGE: The fullest ready pod's use of its KV cache, 0 to 1. Never summed.
        KV_USAGE_MEAN: The mean over the pool's pods, 0 to 1: for what is shown.
        PREFILL_BACKLOG: Seconds that the prompt tokens which wait need at the pool's own speed.
        PREEMPTIONS: Requests that the engines preempted in a minute.
        TTFT: p95 of the time to the first token, in seconds; with enough samples only.
        TPOT: p95 of the time for each further token, in seconds; with enough samples only.
        PREFIX_HIT_RATE: Share of the prompt tokens that the prefix caches had, 0 to 1.
    """

    KV_USAGE = "kvUsage"
    KV_USAGE_MEAN = "kvUsageMean"
    PREFILL_BACKLOG = "prefillBacklog"
    PREEMPTIONS = "preemptions"
    TTFT = "ttft"
    TPOT = "tpot"
    PREFIX_HIT_RATE = "prefixHitRate"


@dataclass(frozen=True)
class Sample:
    """A value and when it was true: the time of the oldest scrape in it, seconds since 1970."""

    value: float
    at: float


@dataclass(frozen=True)
class Unknown:
    """Why a value is not known: a Metrics* reason, and a sentence with its numbers."""

    reason: Reason
    message: str


Reading = Sample | Unknown
Key = tuple[PoolName, Signal]
Signals = Mapping[Key, Reading]
"""What is known of one deployment; a key that is not there does not apply to its pool."""

TRIGGERS: Mapping[Literal["unified", "prefill", "decode"], tuple[Signal, ...]] = {
    "unified": (Signal.KV_USAGE, Signal.PREFILL_BACKLOG),
    "prefill": (Signal.PREFILL_BACKLOG,),
    "decode": (Signal.KV_USAGE,),
}
"""The signals that a pool is shed or shifted for; the others inform."""
