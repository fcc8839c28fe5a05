"""What `tidegate check --cluster` asks the cluster of the kubeconfig: nodes and ConfigMaps."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidegate.cli.checking.check_facts import Texts
from tidegate.cli.checking.check_nodes import Placed
from tidegate.errors import Invalid, Problem

Names = Iterable[tuple[str, str, str]]
"""Namespace, name and key of ConfigMaps."""


def ask(context: str | None, names: Names) -> tuple[list[Placed], Texts]:
    """Return the Nodes, and the texts of the ConfigMaps that are named, None where one is not.

    Raises:
        Invalid: The cluster cannot be reached, or does not let the user read.
    """
    return asyncio.run(_ask(context, sorted(set(names))))


async def _ask(
    context: str | None, names: Sequence[tuple[str, str, str]]
) -> tuple[list[Placed], Texts]:
    from kubernetes.aio.config import ConfigException

    from tidegate.shell import kubeconfig
    from tidegate.shell.api_server import ApiServer, NoAnswer

    try:
        server = await ApiServer.connect(kubeconfig.of_user(None), context)
    except (ConfigException, OSError) as error:
        raise _unreadable(f"no kubeconfig that can be used: {error}") from error
    try:
        documents = (await _get(server, "/api/v1/nodes") or {}).get("items") or []
        texts = {key: await _text(server, *key) for key in names}
    except NoAnswer as error:
        raise _unreadable(str(error)) from error
    finally:
        await server.close()
    placed = [(f"node {index}", {"kind": "Node", **d}) for index, d in enumerate(documents)]
    return placed, texts


async def _text(server: Any, namespace: str, name: str, key: str) -> str | None:
    found = await _get(server, f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    data = (found or {}).get("data") or {}
    text = data.get(key)
    return text if isinstance(text, str) else None


async def _get(server: Any, path: str) -> Mapping[str, Any] | None:
    """Return a document, None where there is none."""
    status, document = await server.call("GET", path)
    if status == 404:
        return None
    if status >= 400:
        raise _unreadable(f"{path}: {document.get('message', status)}")
    found: Mapping[str, Any] = document
    return found


def _unreadable(told: str) -> Invalid:
    return Invalid([Problem("--cluster", " ".join(told.split())[:500])])
