"""A client of the Kubernetes API with the standard library only: what starting a cluster needs."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Self

from . import network
from .settings import API_PORT, Settings

TIMEOUT_SECONDS = 30.0
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "tidegate-cluster"

Document = dict[str, Any]
"""A JSON object of the API."""


class ApiError(Exception):
    """An answer of the API server that is not a success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """Talks to the API server as the administrator; keeps its connection open.

    One thread at a time may use a client.
    """

    def __init__(self, settings: Settings) -> None:
        """Reads the administrator's certificate from the cluster's state."""
        self._namespace = settings.host_namespace
        self._address = settings.networks.host_address
        folder = settings.certificates
        self._tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        self._tls.load_cert_chain(folder / "admin.crt", folder / "admin.key")
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection:
            self._connection.close()
        self._connection = None

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            self._answer("GET", "/readyz").read()
        except (OSError, http.client.HTTPException, ApiError):
            self.close()
            return False
        return True

    def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Document:
        """Send a request and return the object in the answer.

        Raises:
            ApiError: The server refused.
            OSError: No answer.
        """
        document: Document = json.loads(self._answer(method, path, body, content_type).read())
        return document

    def get(self, path: str) -> Document:
        """Read an object or a list."""
        return self.request("GET", path)

    def exists(self, path: str) -> bool:
        """Whether an object is there."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def apply(self, path: str, body: Mapping[str, Any]) -> Document:
        """Create or change an object by server-side apply."""
        path = f"{path}?fieldManager={FIELD_MANAGER}&force=true"
        return self.request("PATCH", path, body, APPLY_PATCH)

    def watch(self, path: str) -> Iterator[Document]:
        """Yield the events of a watch until the server ends it; `path` has its parameters."""
        answer = self._answer("GET", path)
        try:
            while line := answer.readline():
                yield json.loads(line)
        finally:
            self.close()

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type} if data else {}
        for is_reused in (self._connection is not None, False):
            if self._connection is None:
                self._connection = self._connect()
            try:
                self._connection.request(method, path, data, headers)
                answer = self._connection.getresponse()
                break
            except (OSError, http.client.HTTPException):
                self.close()  # the server may close a connection that is idle
                if not is_reused:
                    raise
        if answer.status >= 400:
            raise ApiError(answer.status, _message(answer.read()))
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        plain = network.connect(self._namespace, self._address, API_PORT, TIMEOUT_SECONDS)
        connection = http.client.HTTPSConnection(self._address, API_PORT)
        try:
            connection.sock = self._tls.wrap_socket(plain, server_hostname=self._address)
        except OSError:
            plain.close()
            raise
        return connection


def _message(body: bytes) -> str:
    with contextlib.suppress(ValueError):
        document = json.loads(body)
        if isinstance(document, dict) and "message" in document:
            return str(document["message"])
    return body.decode(errors="replace").strip()
