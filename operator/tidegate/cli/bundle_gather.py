"""What `tidegate bundle` asks the cluster: all that belongs to a deployment, but no Secret.

Whatever cannot be had is noted and left out: a report that lacks a part is still one.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence

from tidegate import __version__
from tidegate.cli.cluster import access
from tidegate.cli.cluster.access import Cluster, Document
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_reach import GateReach, GateSilent
from tidegate.core import names
from tidegate.core.bundle.contents import Contents
from tidegate.errors import Invalid

_OWNED = (
    # (API version, plural); Secrets are never among them
    ("v1", "services"),
    ("v1", "configmaps"),
    ("apps/v1", "deployments"),
    ("policy/v1", "poddisruptionbudgets"),
    ("networking.k8s.io/v1", "networkpolicies"),
)
_OPERATOR = {"app.kubernetes.io/name": "tidegate"}
_GATE_PAGES = ("/configz", "/podz", "/metrics")
_LOG_BYTES = 2**20
_LOG_LINES = 5000
_MOST_PODS = 20
_AT_ONCE = 6


async def gather(cluster: Cluster, reach: GateReach, name: str, operator: str) -> Contents:
    """Gather everything about a deployment; `operator` is the operator's namespace.

    Raises:
        Denied: The deployment itself cannot be read.
    """
    contents = Contents()
    resource = await cluster.deployment(name)
    contents.add_objects("llmdeployment.yaml", [resource])
    pods = await _listed(cluster, contents, "pods", cluster.namespace, _labels(name))
    for version, plural in _OWNED:
        await _listed(cluster, contents, plural, cluster.namespace, _labels(name), version)
    await _events(cluster, contents, name, pods)
    operators = await _listed(cluster, contents, "pods", operator, _OPERATOR, place="operator")
    await _versions(cluster, contents)
    gates = [pod for pod in pods if _label(pod, names.COMPONENT) == names.GATE]
    limit = asyncio.Semaphore(_AT_ONCE)
    works = [_log(cluster, contents, pod) for pod in (*_bounded(contents, pods), *operators)]
    works += [_page(reach, contents, _name(gate), page) for gate in gates for page in _GATE_PAGES]
    await asyncio.gather(*(_limited(limit, work) for work in works))
    return contents


async def _listed(
    cluster: Cluster,
    contents: Contents,
    plural: str,
    namespace: str,
    labels: dict[str, str],
    version: str = "v1",
    place: str = "objects",
) -> list[Document]:
    root = "/apis/" if "/" in version else "/api/"
    path = f"{root}{version}/namespaces/{namespace}/{plural}"
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    file = f"{place}/{plural}.yaml"
    try:
        found = await cluster.items(path, {"labelSelector": selector})
    except (Denied, Invalid) as error:
        contents.lacks(file, str(error))
        return []
    contents.add_objects(file, found)
    return found


async def _events(
    cluster: Cluster, contents: Contents, name: str, pods: Sequence[Document]
) -> None:
    """Add the Events about the deployment, its pods and what is named after it."""
    try:
        found = await cluster.items(f"/api/v1/namespaces/{cluster.namespace}/events")
    except (Denied, Invalid) as error:
        contents.lacks("events.yaml", str(error))
        return
    known = {name, *map(_name, pods)}
    about = [
        event
        for event in found
        if (event.get("involvedObject") or {}).get("name") in known
        or str((event.get("involvedObject") or {}).get("name")).startswith(f"{name}-")
    ]
    contents.add_objects("events.yaml", about)


async def _versions(cluster: Cluster, contents: Contents) -> None:
    try:
        status, told = await cluster.call("GET", "/version")
        server = told.get("gitVersion") if status == 200 and isinstance(told, dict) else status
    except Invalid as error:
        server = str(error)
    contents.add_text("versions.txt", f"tidegate {__version__}\nKubernetes {server}\n")


async def _log(cluster: Cluster, contents: Contents, pod: Document) -> None:
    """Add the end of each container's log, and of the run before where there was one."""
    namespace = pod["metadata"]["namespace"]
    base = f"/api/v1/namespaces/{namespace}/pods/{_name(pod)}/log"
    for container, has_previous in _containers(pod):
        for previous in (False, True) if has_previous else (False,):
            path = f"logs/{_name(pod)}/{container}{'.previous' if previous else ''}.log"
            query = {
                "container": container,
                "tailLines": str(_LOG_LINES),
                "limitBytes": str(_LOG_BYTES),
                "previous": str(previous).lower(),
            }
            try:
                status, told = await cluster.call("GET", base, query=query, as_text=True)
            except Invalid as error:
                contents.lacks(path, str(error))
                continue
            if status == 200:
                contents.add_text(path, str(told))
            else:
                contents.lacks(path, f"{status}: {access.message_of(told)}")


async def _page(reach: GateReach, contents: Contents, gate: str, page: str) -> None:
    path = f"gates/{gate}{page}.txt"
    try:
        contents.add_text(path, await reach.read(gate, page))
    except GateSilent as error:
        contents.lacks(path, str(error))


async def _limited(limit: asyncio.Semaphore, work: Awaitable[None]) -> None:
    async with limit:
        await work


def _bounded(contents: Contents, pods: Sequence[Document]) -> Sequence[Document]:
    """Return the pods whose logs are taken: first those that are not ready."""
    if len(pods) > _MOST_PODS:
        contents.lacks(
            "logs", f"of {len(pods)} pods those of {_MOST_PODS} were taken, the unready first"
        )
    return sorted(pods, key=lambda pod: (_is_ready(pod), _name(pod)))[:_MOST_PODS]


def _containers(pod: Document) -> Iterable[tuple[str, bool]]:
    """Yield the names of a pod's containers, and whether each ran before."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    restarts = {each["name"]: each.get("restartCount", 0) for each in statuses}
    for container in pod["spec"]["containers"]:
        yield container["name"], restarts.get(container["name"], 0) > 0


def _is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _labels(name: str) -> dict[str, str]:
    return {names.LABEL_DEPLOYMENT: name}


def _label(pod: Document, key: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(key) or "")


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])
