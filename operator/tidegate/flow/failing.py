"""Why pods do not serve: the causes, with a log fetched once for each end of a container."""

from collections.abc import Sequence

from tidegate.core import causes
from tidegate.core.causes import Cause
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Clock, Cluster, Document, ReadFailed, Ref

LOG_LINES = 400
_FETCHES = 3
"""Logs fetched in one pass at most: the next pass fetches the next ones."""
_AGAIN_SECONDS = 30.0
"""How long no log is fetched after one that could not be read: a pass waits for each."""


async def worst(
    ref: Ref,
    pods: Sequence[Document],
    deployments: Sequence[Document],
    cluster: Cluster,
    clock: Clock,
    memory: Memory,
) -> Cause | None:
    """Return the cause to show of all that fail."""
    known = memory.causes.setdefault(ref, {})
    fetches = _FETCHES if clock.monotonic() >= memory.logs_at.get(ref, 0.0) else 0
    found: dict[str, Cause | None] = {}
    result = [causes.of_deployment(document) for document in deployments]
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        wanted = causes.needs_log(pod)
        if wanted is None:
            result.append(causes.of_pod(pod))
            continue
        key = causes.log_key(pod)
        if key not in known and fetches:
            try:
                known[key] = await _cause(ref, pod, wanted == "previous", cluster)
                fetches -= 1
            except ReadFailed:
                memory.logs_at[ref] = clock.monotonic() + _AGAIN_SECONDS
                fetches = 0
        if key in known:
            found[key] = known[key]
            result.append(known[key])
    memory.causes[ref] = found
    return causes.worst(cause for cause in result if cause is not None)


async def _cause(ref: Ref, pod: Document, previous: bool, cluster: Cluster) -> Cause | None:
    log = await cluster.pod_log(
        ref.namespace, pod["metadata"]["name"], previous=previous, tail_lines=LOG_LINES
    )
    return causes.of_pod(pod, log)
