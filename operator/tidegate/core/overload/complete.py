"""What the loop decides by, complete: a signal of which nothing was told is there as unknown."""

from collections.abc import Iterable

from tidegate.core.overload.readers import POOLS
from tidegate.core.overload.samples import missing
from tidegate.core.overload.signal import TRIGGERS, Key, Reading, Signals, Unknown


def complete(
    told: Signals | None, pools: Iterable[str], silence: Unknown | None
) -> dict[Key, Reading]:
    """Return the signals of a deployment, with each that its pools are shed or shifted for.

    Args:
        told: What is known of the deployment; None where nothing was told of it.
        pools: Its pools that have pods.
        silence: Why nothing at all was told; None where something was.
    """
    signals: dict[Key, Reading] = dict(told or {})
    named = set(pools)
    for pool in POOLS:
        for signal in TRIGGERS[pool] if pool in named else ():
            unknown = silence or missing(f"{signal} of pool {pool}")
            signals.setdefault((pool, signal), unknown)
    return signals
