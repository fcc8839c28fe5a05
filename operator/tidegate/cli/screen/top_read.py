"""What `tidegate top` shows, as one document, from what the gates counted lately."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tidegate.api.instant import parse_instant
from tidegate.cli.cluster import gate_metrics, status_read, status_sum, untold
from tidegate.cli.cluster.access import Cluster, Document
from tidegate.cli.cluster.gate_metrics import Readings
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.cluster.status_sum import GateAnswer
from tidegate.core import names
from tidegate.core.levers import load as loads
from tidegate.core.levers.load import Load

WINDOW_SECONDS = 30.0
"""How far back rates and quantiles reach at most."""
_MOST_DEPLOYMENTS = 50


class Watched:
    """One deployment: what its gates counted lately."""

    def __init__(self, cluster: Cluster, reach: GateReach, name: str) -> None:
        self._cluster = cluster
        self._reach = reach
        self._name = name
        self._readings: deque[Readings] = deque()

    async def read(self) -> dict[str, Any]:
        """Read everything once, and return the document.

        Raises:
            Denied: The deployment is not there, or the user may not read it.
            Invalid: The cluster does not answer.
        """
        resource = await self._cluster.deployment(self._name)
        pods = await self._cluster.pods({names.LABEL_DEPLOYMENT: self._name})
        gates = untold.gates_of(pods)
        readings, answers = await asyncio.gather(
            gate_metrics.read(self._reach, gates),
            asyncio.gather(*(status_read.ask_gate(self._reach, gate) for gate in gates)),
        )
        self._keep(readings)
        first = self._readings[0] if self._readings else readings
        found = untold.pods(pods, answers, time.time())
        return {
            **document(resource, answers, loads.load(first, readings)),
            "podsNoGateTellsOf": [pod.document() for pod in found],
        }

    def _keep(self, readings: Readings) -> None:
        """Keep a reading, and those within the window before it; the last one at any age.

        One in which no gate answered tells neither a count nor a time.
        """
        if not readings:
            return
        self._readings.append(readings)
        while len(self._readings) > 2:
            if _at(readings) - _at(self._readings[0]) <= WINDOW_SECONDS:
                return
            self._readings.popleft()


class Fleet:
    """Every deployment of a namespace."""

    def __init__(self, cluster: Cluster, reach: GateReach) -> None:
        self._cluster = cluster
        self._reach = reach
        self._watched: dict[str, Watched] = {}

    async def read(self) -> dict[str, Any]:
        """Read every deployment once, and return the documents."""
        found = await self._cluster.deployments()
        names = sorted(str(each["metadata"]["name"]) for each in found)[:_MOST_DEPLOYMENTS]
        self._watched = {
            name: self._watched.get(name) or Watched(self._cluster, self._reach, name)
            for name in names
        }
        items = await asyncio.gather(*(each.read() for each in self._watched.values()))
        return {
            "namespace": self._cluster.namespace,
            "items": items,
            "notShown": len(found) - len(names),
        }


def _at(readings: Readings) -> float:
    return max(each.at for each in readings.values())


def document(resource: Document, gates: Sequence[GateAnswer], load: Load) -> dict[str, Any]:
    """Return one deployment as `--output json` shows it; null is what is not known."""
    metadata, status = resource["metadata"], resource.get("status") or {}
    ready: Mapping[str, str] = next(
        (c for c in status.get("conditions") or () if c["type"] == "Ready"), {}
    )
    overload = status.get("overload") or {}
    used = load.used
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason", ""),
        "message": ready.get("message", ""),
        "gates": {
            "total": len(gates),
            "answering": sum(gate.told is not None for gate in gates),
        },
        "perSecond": {
            "asked": load.asked,
            "finished": None if load.asked is None else load.finished,
            "shifted": None if load.asked is None else load.shifted,
            "refused": dict(load.refused),
            "failed": dict(load.failed),
            "outputTokens": load.output_tokens,
        },
        "ttftSeconds": dict(zip(("p50", "p95"), load.ttft_seconds, strict=True)),
        "timePerOutputTokenSeconds": dict(zip(("p50", "p95"), load.tpot_seconds, strict=True)),
        "kvUsed": used,
        "queuedByClass": {str(number): count for number, count in load.queued.items()},
        "shedPercent": load.shed_percent,
        "shiftPercent": load.shift_percent,
        "overload": {
            "state": overload.get("state"),
            "message": overload.get("message"),
            "override": _holding(overload.get("override"))
            or _holding((resource["spec"].get("overload") or {}).get("override")),
        },
        "pools": _pools(gates),
    }


def _holding(override: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a lever that has not lapsed; one whose end cannot be read may hold."""
    try:
        until = parse_instant(override["until"]) if override else None
    except (KeyError, ValueError):
        return override
    return override if until is not None and datetime.now(UTC) < until else None


def _pools(gates: Sequence[GateAnswer]) -> list[dict[str, Any]]:
    pools: dict[str, list[dict[str, Any]]] = {}
    for total in status_sum.pods(gates):
        pools.setdefault(total.pool, []).append(total.document())
    order = {"unified": 0, "prefill": 1, "decode": 2}
    return [
        {"name": name, "pods": pods}
        for name, pods in sorted(pools.items(), key=lambda item: order.get(item[0], 3))
    ]
