"""Plain JSON over the official async client: its configuration, credentials and connections."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration

from tidegate.flow.ports import Document
from tidegate.shell import kubeconfig as kube_configs

CALL_SECONDS = 30
"""Longest wait for an answer that is not a watch."""
_CONNECTIONS = 64
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class NoAnswer(Exception):
    """The API server could not be reached, or did not answer in time."""


class ApiServer:
    """Requests to one API server; `on_call(verb, plural, status)` hears of each answer."""

    def __init__(
        self, client: ApiClient, on_call: Callable[[str, str, int | None], None] | None = None
    ) -> None:
        self._client = client
        self._on_call = on_call or (lambda verb, plural, status: None)

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None,
        context: str | None,
        on_call: Callable[[str, str, int | None], None] | None = None,
    ) -> "ApiServer":
        """Connect as the pod's account, or by a kubeconfig when one is named or there is no pod.

        Raises:
            ConfigException: There is no kubeconfig that can be used.
            OSError: It cannot be read.
        """
        settings = Configuration()
        settings.connection_pool_maxsize = _CONNECTIONS
        # else each call asks ~/.netrc and the proxy variables, in a thread; kopf asks neither
        settings.client_session_kwargs = {"trust_env": False}
        if kubeconfig is None and context is None and _in_pod():
            config.load_incluster_config(client_configuration=settings)
        else:
            await kube_configs.load(kubeconfig, context, settings)
        return cls(ApiClient(configuration=settings), on_call)

    @property
    def configuration(self) -> Configuration:
        """The address and credentials in use."""
        configuration: Configuration = self._client.configuration
        return configuration

    async def close(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        verb: str = "",
        as_text: bool = False,
        seconds: float = CALL_SECONDS,
        on_warning: Callable[[str], None] = lambda told: None,
    ) -> tuple[int, Any]:
        """Return the status and the document (or text) of an answer, whatever the status is.

        `on_warning` hears of each warning of the API server or a webhook.

        Raises:
            NoAnswer: There was no answer within `seconds`; what was asked may have been done all
                the same.
        """
        status = None
        try:
            async with asyncio.timeout(seconds):
                answer = await self._send(method, path, query, body, content_type, seconds)
                status, data = answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            self._on_call(verb or method.lower(), _plural(path), status)
        for told in warnings(answer.headers.getall("Warning", ())):
            on_warning(told)
        if as_text and status < 400:
            return status, data.decode("utf-8", "replace")
        return status, _document(data)

    async def lines(
        self, path: str, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncIterator[Document]:
        """Yield the events of a watch; end with it. A silent connection counts as broken.

        Raises:
            NoAnswer: The watch broke off, or was silent for `silence_seconds`.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CALL_SECONDS, sock_read=silence_seconds
        )
        try:
            answer = await self._send("GET", path, query, None, "application/json", timeout)
            self._on_call("watch", _plural(path), answer.status)
            async with answer:
                if answer.status >= 400:
                    yield {"type": "ERROR", "object": _document(await answer.read())}
                    return
                async for line in answer.content:
                    yield json.loads(line)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Any,
        content_type: str,
        timeout: Any,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        answer = await self._client.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response


def message_of(document: Any) -> str:
    """Return the message of a Status document, or the start of whatever came instead."""
    if isinstance(document, dict):
        return str(document.get("message") or document.get("reason") or document)[:2000]
    return str(document)[:500]


def warnings(headers: Iterable[str]) -> Iterator[str]:
    """Yield the texts of `Warning` headers as Kubernetes sends them: `299 - "text"`."""
    for header in headers:
        for match in _WARNING.finditer(header):
            yield re.sub(r"\\(.)", r"\1", match[1]).encode("utf-8", "replace").decode()


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def _plural(path: str) -> str:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join(parts[::2][:1] + parts[2:3]) if parts else ""


def _in_pod() -> bool:
    try:
        config.load_incluster_config(client_configuration=Configuration())
    except config.ConfigException:
        return False
    return True
