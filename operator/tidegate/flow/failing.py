"""Why pods do not serve: the causes, with a log fetched once for each end of a container."""

from collections.abc import Sequence

from tidegate.core import causes
from tidegate.core.causes import Cause
from tidegate.flow.memory import Memory
from tidegate.flow.ports import Cluster, Document, ReadFailed, Ref

LOG_LINES = 400
_FETCHES = 8
"""Logs fetched in one pass at most: the next pass fetches the next ones."""


async def worst(
    ref: Ref,
    pods: Sequence[Document],
    deployments: Sequence[Document],
    cluster: Cluster,
    memory: Memory,
) -> Cause | None:
    """Return the cause to show of all that fail."""
    known = memory.causes.setdefault(ref, {})
    fetches = 0
    found: dict[str, Cause | None] = {}
    result = [causes.of_deployment(document) for document in deployments]
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        wanted = causes.needs_log(pod)
        if wanted is None:
            result.append(causes.of_pod(pod))
            continue
        key = causes.log_key(pod)
        if key not in known and fetches < _FETCHES:
            fetches += 1
            known |= await _fetch(ref, pod, key, wanted == "previous", cluster)
        if key in known:
            found[key] = known[key]
            result.append(known[key])
    memory.causes[ref] = found
    return causes.worst(cause for cause in result if cause is not None)


async def _fetch(
    ref: Ref, pod: Document, key: str, previous: bool, cluster: Cluster
) -> dict[str, Cause | None]:
    try:
        log = await cluster.pod_log(
            ref.namespace, pod["metadata"]["name"], previous=previous, tail_lines=LOG_LINES
        )
    except ReadFailed:
        return {}
    return {key: causes.of_pod(pod, log)}
