"""Waiting until the operator and the gates do what was written."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidegate.cli.cluster import access, status_read
from tidegate.cli.cluster.access import Access, Cluster, Document
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.cluster.status_sum import GateAnswer
from tidegate.core.levers import holding
from tidegate.core.levers.holding import Holding, Shown
from tidegate.errors import Invalid

_HOLD_SECONDS = 15.0
_LOOK_SECONDS = 0.5
Overload = Mapping[str, Any]
_Judge = Callable[[Overload, Sequence[Shown] | None], Holding]
"""Tells by `status.overload` and the gates, None where nobody can say, what came of it."""


async def takes_hold(where: Access, name: str, override: Document) -> Holding:
    """Wait until the operator has taken over a lever and every gate that answers applies it."""

    def judge(overload: Overload, gates: Sequence[Shown] | None) -> Holding:
        return holding.of_lever(override, overload, gates)

    return await _wait(where, name, judge)


async def lets_go(where: Access, name: str) -> Holding:
    """Wait until the loop decides again, and no gate that answers has more than it says."""
    return await _wait(where, name, holding.of_letting_go)


async def _wait(where: Access, name: str, judge: _Judge) -> Holding:
    """Look until it is over or time is up.

    What fails meanwhile is tried again: it is written, whatever becomes of the looks.
    """
    end = time.monotonic() + _HOLD_SECONDS
    while True:
        try:
            async with access.connected(where) as cluster, GateReach(cluster) as reach:
                while True:
                    found = await _look(cluster, reach, name, judge)
                    if found.is_over or time.monotonic() >= end:
                        return found
                    await asyncio.sleep(_LOOK_SECONDS)
        except (Denied, Invalid) as error:
            found = Holding(None, f"Whether the gates apply it is unknown: {access.line(error)}")
        if time.monotonic() >= end:
            return found
        await asyncio.sleep(_LOOK_SECONDS)


async def _look(cluster: Cluster, reach: GateReach, name: str, judge: _Judge) -> Holding:
    resource = await cluster.deployment(name)
    overload = (resource.get("status") or {}).get("overload") or {}
    try:
        pods = [str(pod["metadata"]["name"]) for pod in await cluster.gate_pods(name)]
    except (Denied, Invalid) as error:
        found = judge(overload, None)
        why = f": {access.line(error)}" if found.holds is None else ""
        return dataclasses.replace(found, told=f"{found.told}{why}")
    answers = await asyncio.gather(*(status_read.ask_gate(reach, pod) for pod in pods))
    return judge(overload, [_shown(answer) for answer in answers])


def _shown(answer: GateAnswer) -> Shown:
    if answer.told is None:
        return Shown(answer.name)
    shares = (float(answer.told.get(key) or 0) for key in ("shedPercent", "shiftPercent"))
    return Shown(answer.name, *shares)
