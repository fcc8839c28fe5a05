"""The API server as the gate's own account sees it: lists and watches, nothing else.

A client of its own and not the official one: two calls do not pay for 40 MiB of memory.
"""

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

Document = dict[str, Any]

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts a pod's account: `token`, renewed in place, and `ca.crt`."""
CALL_SECONDS = 10.0
"""Longest wait for an answer that is not a watch."""
SILENCE_SECONDS = 90.0
"""The server sends a bookmark every minute: a watch that is silent for longer is half open."""
_LONGEST_LINE_BYTES = 4 * 2**20
"""One event: a ConfigMap has at most 1 MiB, which escaping may double."""


class NoAnswer(Exception):
    """The API server could not be reached, did not answer in time, or refused."""


class Expired(Exception):
    """The server no longer knows the version that a watch was to go on from."""


@dataclass(frozen=True)
class Account:
    """Where the API server is and who asks: a URL, and the folder with `token` and `ca.crt`."""

    url: str
    folder: Path = ACCOUNT_FOLDER

    @classmethod
    def of_pod(cls, folder: Path = ACCOUNT_FOLDER) -> "Account | None":
        """Return the account of the pod that this process runs in; None outside of one."""
        host = os.environ.get("KUBERNETES_SERVICE_HOST")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            return None
        return cls(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", folder)


class ApiServer:
    """Reads from one API server; close it at the end."""

    def __init__(self, account: Account, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._account = account
        self._silence_seconds = silence_seconds
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def list(self, path: str, query: Mapping[str, str]) -> Document:
        """Return a list.

        Raises:
            NoAnswer: There was none in time, or it was an error.
            Expired: The server says 410.
        """
        try:
            async with (
                asyncio.timeout(CALL_SECONDS),
                self._get(path, query, aiohttp.ClientTimeout()) as answer,
            ):
                data = await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        document = _document(data)
        if answer.status != 200:
            raise _refusal(answer.status, document)
        return document

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Document]:
        """Yield the events of a watch, until the server ends it.

        Raises:
            NoAnswer: It broke off, was refused, or was silent for too long.
            Expired: The server says 410, as a status or as an event.
        """
        timeout = aiohttp.ClientTimeout(sock_connect=CALL_SECONDS, sock_read=self._silence_seconds)
        try:
            async with self._get(path, query, timeout) as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, _document(await answer.read()))
                async for line in answer.content:
                    event = _document(line)
                    if event.get("type") == "ERROR":
                        status = event.get("object") or {}
                        raise _refusal(status.get("code"), status)
                    yield event
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error

    def _get(
        self, path: str, query: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> "aiohttp.client._RequestContextManager":
        try:
            if self._session is None:
                self._session = _session(self._account)
            headers = _credentials(self._account)
        except OSError as error:
            raise NoAnswer(f"the account cannot be read: {error}") from error
        url = self._account.url + path
        return self._session.get(url, params=query, headers=headers, timeout=timeout)


def _session(account: Account) -> aiohttp.ClientSession:
    authority = account.folder / "ca.crt"
    is_encrypted = account.url.startswith("https:")
    trust = ssl.create_default_context(cafile=str(authority)) if is_encrypted else True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=trust),
        trust_env=False,
        read_bufsize=_LONGEST_LINE_BYTES,
    )


def _credentials(account: Account) -> dict[str, str]:
    """Read the token anew each time: Kubernetes renews it in place."""
    token = (account.folder / "token").read_text().strip()
    return {"Authorization": f"Bearer {token}", "Accept": "application/json"}


def _document(data: bytes) -> Document:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise NoAnswer("the answer is no JSON") from error
    if not isinstance(document, dict):
        raise NoAnswer("the answer is no object")
    return document


def _refusal(status: object, document: Document) -> NoAnswer | Expired:
    if status == 410:
        return Expired()
    return NoAnswer(f"{status}: {str(document.get('message') or document)[:500]}")
