"""What `tidegate status` asks the cluster: the resource, its gates' pods, and each gate's `/podz`.

It asks by the API server's way to pods. Where a NetworkPolicy lets the API server not in,
`kubectl port-forward` does: its traffic comes from the pod's own node, inside the pod.
"""

import asyncio
import json
import re
import shutil
from dataclasses import dataclass
from typing import Any

from tidegate.api.llmdeployment import GROUP, PLURAL, VERSION
from tidegate.cli.status_sum import GateAnswer
from tidegate.core import names
from tidegate.errors import Invalid, Problem

_SECONDS = 3.0
_FORWARD_SECONDS = 10.0
_MOST_BYTES = 4 * 2**20
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Found:
    """The resource as it is stored, and what its gates answer."""

    resource: dict[str, Any]
    gates: list[GateAnswer]


@dataclass(frozen=True)
class Where:
    """Which deployment, by which kubeconfig; its current context and namespace when None."""

    name: str
    namespace: str | None
    context: str | None


def ask(where: Where) -> Found | None:
    """Return what there is to say; None where there is no such resource.

    Raises:
        Invalid: The cluster cannot be reached, or does not let the user read.
    """
    return asyncio.run(_ask(where))


async def _ask(where: Where) -> Found | None:
    from kubernetes.aio.config import ConfigException

    from tidegate.shell.api_server import ApiServer, NoAnswer

    try:
        api = await ApiServer.connect(None, where.context)
    except (ConfigException, OSError) as error:
        raise _unreadable(f"no kubeconfig that can be used: {error}") from error
    try:
        namespace = where.namespace or _namespace(where.context)
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/{where.name}"
        resource = await _get(api, path)
        if resource is None:
            return None
        labels = ",".join(f"{key}={value}" for key, value in names.gate_labels(where.name).items())
        found = await _get(api, f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": labels})
        pods = sorted(item["metadata"]["name"] for item in (found or {}).get("items") or ())
        gates = await asyncio.gather(*(_gate(api, where, namespace, pod) for pod in pods))
        return Found(resource, list(gates))
    except NoAnswer as error:
        raise _unreadable(str(error)) from error
    finally:
        await api.close()


async def _gate(api: Any, where: Where, namespace: str, pod: str) -> GateAnswer:
    from tidegate.shell.api_server import NoAnswer

    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{names.GATE_ADMIN_PORT}/proxy/podz"
    try:
        status, told = await api.call("GET", path, seconds=_SECONDS)
        if status == 200 and isinstance(told, dict):
            return GateAnswer(pod, told)
        why = f"{status}: {_message(told)}"
    except NoAnswer as error:
        why = str(error)
    try:
        return GateAnswer(pod, await _by_port_forward(where, namespace, pod))
    except (OSError, TimeoutError, ValueError) as error:
        return GateAnswer(pod, None, f"{why}; by port-forward: {str(error) or 'no answer in time'}")


async def _by_port_forward(where: Where, namespace: str, pod: str) -> dict[str, Any]:
    """Read `/podz` through `kubectl port-forward`."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise FileNotFoundError("there is no kubectl")
    context = ["--context", where.context] if where.context else []
    process = await asyncio.create_subprocess_exec(
        *(kubectl, *context, "-n", namespace, "port-forward", f"pod/{pod}"),
        f":{names.GATE_ADMIN_PORT}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_FORWARD_SECONDS):
            line = await process.stdout.readline() if process.stdout else b""
            match = _FORWARDING.search(line)
            if match is None:
                raise OSError("kubectl could not forward")
            return await _podz(int(match[1]))
    finally:
        process.terminate()
        await process.wait()


async def _podz(port: int) -> dict[str, Any]:
    import aiohttp

    try:
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"http://127.0.0.1:{port}/podz", allow_redirects=False) as answer,
        ):
            told = json.loads(await answer.content.read(_MOST_BYTES))
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from error
    if not isinstance(told, dict):
        raise ValueError("the gate answers no document")
    return told


async def _get(api: Any, path: str, query: dict[str, str] | None = None) -> dict[str, Any] | None:
    """Return a document, None where there is none."""
    status, document = await api.call("GET", path, query=query)
    if status == 404:
        return None
    if status >= 400:
        raise _unreadable(f"{path}: {_message(document)}")
    found: dict[str, Any] = document
    return found


def _namespace(context: str | None) -> str:
    """Return the namespace of the kubeconfig's context."""
    from kubernetes.aio.config import list_kube_config_contexts

    contexts, current = list_kube_config_contexts()  # type: ignore[no-untyped-call]  # theirs
    chosen = next((entry for entry in contexts if entry["name"] == context), current)
    return str(chosen["context"].get("namespace") or "default")


def _message(document: Any) -> str:
    told = document.get("message") if isinstance(document, dict) else document
    return " ".join(str(told).split())[:300]


def _unreadable(told: str) -> Invalid:
    return Invalid([Problem("the cluster", " ".join(told.split())[:500])])
