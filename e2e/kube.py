"""One API server as a scenario sees it: kubectl for what a user does, plain HTTP for what is read.

Reads go through `kubectl proxy`, which knows every kind of credentials, so that a wait that looks
four times a second costs no process each time.
"""

import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

Document = dict[str, Any]
T = TypeVar("T")

CALL_SECONDS = 20.0
KUBECTL_SECONDS = 90.0
PERIOD_SECONDS = 0.25
MERGE_PATCH = "application/merge-patch+json"

_ROOTS = {
    "configmaps": "/api/v1",
    "events": "/api/v1",
    "nodes": "/api/v1",
    "pods": "/api/v1",
    "secrets": "/api/v1",
    "serviceaccounts": "/api/v1",
    "services": "/api/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "llmdeployments": "/apis/tidegate.io/v1alpha1",
}


class Unanswered(Exception):
    """The API server refused, or gave no answer."""


def path(plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """Return the path of a collection or of one object."""
    parts = [_ROOTS[plural]]
    parts += [f"namespaces/{namespace}"] if namespace else []
    return "/".join([*parts, plural, *([name] if name else [])])


class Kube:
    """A cluster; use it as a context manager, since it runs a proxy.

    `images` replaces image references in what is applied: a cluster with a registry has others.
    """

    def __init__(self, kubeconfig: Path, images: Mapping[str, str] | None = None) -> None:
        self.kubeconfig = kubeconfig
        self._images = dict(images or {})
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._proxy: subprocess.Popen[str] | None = None
        self._url = ""

    def __enter__(self) -> Self:
        self._proxy = subprocess.Popen(
            ["kubectl", "proxy", "--port=0"],
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        assert self._proxy.stdout is not None
        line = self._proxy.stdout.readline()
        self._url = f"http://{line.rpartition(' ')[2].strip()}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait()
            if self._proxy.stdout is not None:
                self._proxy.stdout.close()

    # what a user does

    def try_kubectl(
        self, *words: str, text: str | None = None, seconds: float = KUBECTL_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever comes of it."""
        return subprocess.run(
            ["kubectl", *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=seconds,
            env=self._environment,
            check=False,
        )

    def kubectl(
        self, *words: str, text: str | None = None, seconds: float = KUBECTL_SECONDS
    ) -> str:
        """Run kubectl and return what it prints.

        Raises:
            AssertionError: It failed; has its words.
        """
        done = self.try_kubectl(*words, text=text, seconds=seconds)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def apply(self, namespace: str, text: str) -> str:
        """Apply a manifest."""
        return self.kubectl("apply", "-n", namespace, "-f", "-", text=self.with_images(text))

    def with_images(self, text: str) -> str:
        """Return a manifest with the image references of this cluster."""
        for ours, theirs in self._images.items():
            text = text.replace(ours, theirs)
        return text

    # what is read

    def url(self, path: str) -> str:
        """Return the address, through the proxy, of a path of the API."""
        return f"{self._url}{path}"

    def pod_url(self, pod: Document, port: int = 8000) -> str:
        """Return the base URL of a pod's port: through the API server, so from anywhere."""
        return self.url(self.pod_path(pod, port))

    @staticmethod
    def pod_path(pod: Document, port: int) -> str:
        """Return the path of the API that leads to a pod's port."""
        metadata = pod["metadata"]
        place = path("pods", metadata["namespace"], f"{metadata['name']}:{port}")
        return f"{place}/proxy"

    def find(self, plural: str, namespace: str | None, name: str) -> Document | None:
        """Return one object, None where it is not there."""
        try:
            return self.request("GET", path(plural, namespace, name))
        except Unanswered as error:
            if _status(error) == 404:
                return None
            raise

    def get(self, plural: str, namespace: str | None, name: str) -> Document:
        """Return one object that must be there."""
        found = self.find(plural, namespace, name)
        assert found is not None, f"{plural} {namespace}/{name} is not there"
        return found

    def list(self, plural: str, namespace: str | None = None, selector: str = "") -> list[Document]:
        """Return the objects of a kind."""
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        items: list[Document] = self.request("GET", path(plural, namespace) + query)["items"]
        return items

    def request(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Document:
        """Send one request and return the document in the answer.

        Raises:
            Unanswered: The server refused, or is away.
        """
        document: Document = json.loads(self.text(path, method, body, kind))
        return document

    def text(
        self, path: str, method: str = "GET", body: object = None, kind: str = "application/json"
    ) -> str:
        """Send one request and return the answer as it is."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            self.url(path), data, {"Content-Type": kind} if data else {}, method=method
        )
        try:
            with urllib.request.urlopen(asked, timeout=CALL_SECONDS) as answer:
                content: bytes = answer.read()
                return content.decode()
        except (OSError, ValueError) as error:
            raise Unanswered(f"{method} {path}: {error}") from error

    def watch(self, path: str, version: str) -> Iterator[Document]:
        """Yield the events of a watch until it ends."""
        address = self.url(f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=600")
        with urllib.request.urlopen(address, timeout=600) as answer:
            for line in answer:
                yield json.loads(line)


def _status(error: Unanswered) -> int | None:
    cause = error.__cause__
    return cause.code if isinstance(cause, urllib.error.HTTPError) else None


def wait_until(what: str, probe: Callable[[], "T | Not | None"], seconds: float) -> T:
    """Return the first answer of a probe that is true.

    An API server that is away counts as no answer yet. A probe may return a `Not` to say what it
    saw instead: the failure shows the last one.

    Raises:
        AssertionError: None came in time; says what was waited for and what was seen last.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer: object = probe()
        except Unanswered as error:
            answer = Not(str(error))
        if answer:
            return answer  # type: ignore[return-value]  # a Not is false
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen: {answer}")
        time.sleep(PERIOD_SECONDS)


class Not:
    """A false answer that says what was seen."""

    def __init__(self, seen: object) -> None:
        self._seen = seen

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return str(self._seen)
