"""Signals set against their thresholds: which pool is over, which are under, how hard it presses.

A signal's pressure is (value - exit) / (full - exit): 0 at `exit`, 1 at full. A pool's KV cache is
full at 1; a backlog counts as full at `FULL_BACKLOG` times `enter`, where nothing is full.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tidegate.api.gate_config import PoolName
from tidegate.api.overload_spec import OverloadSpec
from tidegate.core.overload.signal import TRIGGERS, Key, Sample, Signal, Signals, Unknown

Standing = Literal["under exit", "between", "over enter", "unknown"]
"""How all that decides of a deployment stands to its own thresholds, taken together."""
FULL_BACKLOG = 2.0
"""Twice `enter`: by then a prompt waits twice as long as is borne, so all may be turned away."""


@dataclass(frozen=True)
class Threshold:
    """Bounds of a signal, in its own unit; exit < enter <= full."""

    enter: float
    exit: float
    full: float


@dataclass(frozen=True)
class Known:
    """A signal of a pool whose value is known."""

    pool: PoolName
    signal: Signal
    sample: Sample
    threshold: Threshold

    @property
    def is_over(self) -> bool:
        """Tell whether it is at `enter` or above."""
        return self.sample.value >= self.threshold.enter

    @property
    def is_under(self) -> bool:
        """Tell whether it is below `exit`."""
        return self.sample.value < self.threshold.exit

    @property
    def pressure(self) -> float:
        """How hard it presses: negative below `exit`, 1 at full and beyond."""
        return min(1.0, self.height)

    @property
    def height(self) -> float:
        """The pressure beyond full as well: a queue that is longer than that may be falling."""
        bounds = self.threshold
        return (self.sample.value - bounds.exit) / (bounds.full - bounds.exit)


@dataclass(frozen=True)
class Pressure:
    """What is known of all signals that decide, and what is not."""

    known: tuple[Known, ...]
    unknown: tuple[tuple[Key, Unknown], ...]

    @property
    def worst(self) -> Known | None:
        """The signal that presses hardest; None where none is known."""
        return max(self.known, key=lambda each: (each.is_over, each.pressure), default=None)

    @property
    def is_over(self) -> bool:
        """Tell whether a known signal is over its `enter`."""
        return any(each.is_over for each in self.known)

    @property
    def is_under(self) -> bool:
        """Tell whether there is a known signal, and all that are known are under their `exit`."""
        return bool(self.known) and all(each.is_under for each in self.known)

    @property
    def has_gaps(self) -> bool:
        """Tell whether something that decides is unknown."""
        return bool(self.unknown) or not self.known

    @property
    def stands(self) -> Standing:
        """How they stand, for those who would send requests here."""
        if self.has_gaps:
            return "unknown"
        if self.is_over:
            return "over enter"
        return "under exit" if self.is_under else "between"

    @property
    def level(self) -> float | None:
        """The hardest pressure; None where none is known."""
        return max((each.pressure for each in self.known), default=None)

    @property
    def height(self) -> float | None:
        """The hardest pressure beyond full as well, by which it rises or falls; None if unknown."""
        return max((each.height for each in self.known), default=None)

    @property
    def kv_usage(self) -> Known | None:
        """The fullest KV cache of all pools; None where none is known."""
        caches = (each for each in self.known if each.signal is Signal.KV_USAGE)
        return max(caches, key=lambda each: each.sample.value, default=None)

    @property
    def is_queue_over(self) -> bool:
        """Tell whether a backlog is over its `enter`."""
        return any(each.is_over and each.signal is not Signal.KV_USAGE for each in self.known)

    def sampled_at(self) -> float | None:
        """Return the time of the oldest sample; None where none is known."""
        return min((each.sample.at for each in self.known), default=None)


def read(spec: OverloadSpec, signals: Signals) -> Pressure:
    """Set what is known of a deployment's pools against its thresholds."""
    known: list[Known] = []
    unknown: list[tuple[Key, Unknown]] = []
    for pool, signal in sorted(_deciding(signals)):
        reading = signals[pool, signal]
        if isinstance(reading, Unknown):
            unknown.append(((pool, signal), reading))
        else:
            known.append(Known(pool, signal, reading, threshold(spec, signal)))
    return Pressure(tuple(known), tuple(unknown))


def threshold(spec: OverloadSpec, signal: Signal) -> Threshold:
    """Return the bounds of a signal that decides."""
    if signal == Signal.KV_USAGE:
        return Threshold(spec.kv_usage.enter, spec.kv_usage.exit, full=1.0)
    backlog = spec.prefill_backlog
    return Threshold(backlog.enter, backlog.exit, full=FULL_BACKLOG * backlog.enter)


def _deciding(signals: Signals) -> Iterable[Key]:
    return [(pool, signal) for pool, signal in signals if signal in TRIGGERS[pool]]
