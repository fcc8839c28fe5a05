"""How fast the loop can be at best, beside how fast the KV cache can fill.

Where the loop is the slower one, it cannot keep a burst out: the gates' token budget does.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.overload_status import ReactionStatus
from tidegate.api.quantities import spell_duration
from tidegate.core.overload.decision import Tick
from tidegate.core.plan import Plan
from tidegate.core.slice_plan import SlicePlan

WRITE_SECONDS = 0.5
"""For the pass that writes the gates' configuration; a bound that the tests on a cluster keep."""
WATCH_SECONDS = 0.5
"""Until the gates have it by their watch; a bound as well."""


@dataclass(frozen=True)
class Reaction:
    """Both times, in seconds.

    Attributes:
        floor_seconds: From a change in an engine until a share holds, at worst, with nothing late.
        fill_seconds: From `kvUsage.enter` to full when every prompt is new and all pods that
            prefill do nothing else; None where a speed of prefill is not known.
        pool: The pool whose KV cache fills first; empty where none is known.
    """

    floor_seconds: float
    fill_seconds: float | None = None
    pool: str = ""


def reaction(spec: OverloadSpec, plan: Plan, tick: Tick) -> Reaction:
    """Work both out, from a plan and how often the loop looks."""
    floor = tick.scrape_interval_seconds + tick.interval_seconds + WRITE_SECONDS + WATCH_SECONDS
    fills = [
        (_fill_seconds(spec, entry, plan), entry.pool)
        for entry in plan.slices
        if entry.pool != "prefill" and entry.replicas
    ]
    known = [(seconds, pool) for seconds, pool in fills if seconds is not None]
    if not known:
        return Reaction(floor)
    fill, pool = min(known)
    return Reaction(floor, fill, pool)


def _fill_seconds(spec: OverloadSpec, entry: SlicePlan, plan: Plan) -> float | None:
    """Return how long one pod's KV cache takes from `enter` to full; None where unknown."""
    left_tokens = (1 - spec.kv_usage.enter) * entry.sizing.pool.cache_size_tokens
    speed = _tokens_per_second(entry, plan)
    return left_tokens / speed if speed else None


def _tokens_per_second(entry: SlicePlan, plan: Plan) -> float | None:
    """Return the prompt tokens that come to one pod in a second at full speed of prefill."""
    if entry.pool == "unified":
        return entry.prefill_tokens_per_second
    sources = plan.of_pool("prefill")
    speeds = [
        source.prefill_tokens_per_second * source.replicas
        for source in sources
        if source.prefill_tokens_per_second is not None
    ]
    if not speeds or len(speeds) < len(sources):
        return None
    return sum(speeds) / _replicas(plan.of_pool(entry.pool))


def _replicas(entries: Iterable[SlicePlan]) -> int:
    return max(1, sum(entry.replicas for entry in entries))


def status(spec: OverloadSpec, found: Reaction, tick: Tick) -> ReactionStatus:
    """Return what `status.overload.reaction` shows."""
    fill = found.fill_seconds
    return ReactionStatus(
        floor=_spelled(found.floor_seconds),
        fill_time=_spelled(fill) if fill is not None else None,
        message=" ".join(_sentences(spec, found, tick)),
    )


def _sentences(spec: OverloadSpec, found: Reaction, tick: Tick) -> Iterable[str]:
    yield (
        f"A share holds at the gates {_spelled(found.floor_seconds)} after a change at worst: "
        f"{tick.scrape_interval_seconds:g} s to the next scrape, {tick.interval_seconds:g} s to "
        f"the next look, {WRITE_SECONDS + WATCH_SECONDS:g} s to write and to be seen; enterAfter "
        f"({_spelled(spec.enter_after)}) comes on top."
    )
    if found.fill_seconds is None:
        yield "How fast the KV cache fills is not known: no speed of prefill of these cards is."
        return
    yield (
        f"At the plan's full speed of prefill the KV cache of a {found.pool} pod goes from "
        f"{spec.kv_usage.enter:g} to full in {_told(found.fill_seconds)}."
    )
    yield _which_is_faster(found, found.fill_seconds, tick)


def _which_is_faster(found: Reaction, fill_seconds: float, tick: Tick) -> str:
    if found.floor_seconds <= fill_seconds:
        return "The loop is the faster one."
    return (
        "The loop is the slower one, so the gates' token budget is what protects; "
        f"{_mend(fill_seconds, tick)} would let the loop be in time."
    )


def _mend(fill_seconds: float, tick: Tick) -> str:
    """Say which scrape interval would do, in whole seconds; a shorter tick where that is needed."""
    to_share_seconds = fill_seconds - WRITE_SECONDS - WATCH_SECONDS
    alone, both = math.floor(to_share_seconds - tick.interval_seconds), to_share_seconds // 2
    if alone >= 1:
        return f"a scrape interval of {alone} s"
    return f"a scrape interval and a tick of {both:.0f} s" if both >= 1 else "no scrape interval"


def _told(seconds: float) -> str:
    return _spelled(seconds) if round(seconds, 1) else "less than 0.1s"


def _spelled(seconds: float) -> str:
    return spell_duration(round(seconds, 1))
