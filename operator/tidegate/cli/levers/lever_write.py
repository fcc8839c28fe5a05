"""How a lever is written: the user's own patch of `spec.overload.override`."""

import asyncio
import time
from collections.abc import Sequence

from tidegate.cli.cluster import access, status_read, status_sum
from tidegate.cli.cluster.access import Access, Cluster, Document
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.cluster.status_sum import GateAnswer
from tidegate.cli.levers.lever_look import Seen
from tidegate.core.levers import lever as levers
from tidegate.core.levers.lever import Lever

_TRIES = 5
"""The operator writes status at any time, which makes a new version of the resource."""
_HOLD_SECONDS = 15.0
_LOOK_SECONDS = 0.5
_WHOLE_PERCENT = 1.0
"""The operator tells gates whole percent only."""


async def write(where: Access, seen: Seen, lever: Lever | None, dry_run: bool) -> Document:
    """Set a lever or let go of all, and return the resource as it is stored then.

    Raises:
        Denied: The API server or the webhook refuses, or somebody changed the spec meanwhile.
    """
    async with access.connected(where) as cluster:
        version = str(seen.resource["metadata"]["resourceVersion"])
        for _ in range(_TRIES):
            status, answer = await cluster.call(
                "PATCH",
                seen.path,
                query=_query(dry_run),
                body=levers.patch(lever, version),
                content_type="application/merge-patch+json",
            )
            if status < 300:
                stored: Document = answer
                return stored
            if status != 409:
                raise access.denied(status, answer)
            version = await _version_of_same_spec(cluster, seen)
        raise Denied("the resource changes too fast; try again")


async def takes_hold(where: Access, name: str, lever: Lever) -> bool | None:
    """Wait until every gate that answers applies a lever; False where none does in time.

    None where the user may not look at the gates: the lever is set all the same.
    """
    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        try:
            pods = [str(pod["metadata"]["name"]) for pod in await cluster.gate_pods(name)]
        except Denied:
            return None
        end = time.monotonic() + _HOLD_SECONDS
        while pods and time.monotonic() < end:
            if _apply(await asyncio.gather(*(status_read.ask_gate(reach, p) for p in pods)), lever):
                return True
            await asyncio.sleep(_LOOK_SECONDS)
    return False


def _apply(gates: Sequence[GateAnswer], lever: Lever) -> bool:
    """Tell whether every gate that answers has the shares of a lever."""
    percent = lever.percent or 0.0
    wanted = {
        "shedPercent": percent if lever.action == "Shed" else 0.0,
        "shiftPercent": percent if lever.action == "Shift" else 0.0,
    }
    answering = [gate for gate in gates if gate.told is not None]
    return bool(answering) and all(
        abs(status_sum.largest_share([gate], key) - share) < _WHOLE_PERCENT
        for gate in answering
        for key, share in wanted.items()
    )


def _query(dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": levers.FIELD_MANAGER, "fieldValidation": "Strict"}
    return query | ({"dryRun": "All"} if dry_run else {})


async def _version_of_same_spec(cluster: Cluster, seen: Seen) -> str:
    """Return the version that has only another status than what was shown to the user."""
    now = (await cluster.deployment(seen.resource["metadata"]["name"]))["metadata"]
    before = seen.resource["metadata"]
    if (now["uid"], now.get("generation")) != (before["uid"], before.get("generation")):
        raise Denied(
            f"somebody changed {now['name']} meanwhile, so nothing was written; look at it "
            "(tidegate status) and try again"
        )
    return str(now["resourceVersion"])
