"""The cluster as the user of a kubeconfig reaches it: for the commands of whoever is on call."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from tidegate.api.llmdeployment import GROUP, KIND, PLURAL, VERSION
from tidegate.cli.cluster.denied import Denied
from tidegate.core import names
from tidegate.errors import Invalid, Problem

Document = dict[str, Any]
_Command = TypeVar("_Command", bound=Callable[..., Any])
ROLE_GUIDE = "docs/guides/levers.md has the Role"
_LONGEST = 500
_ODD_CONFIG = (OSError, AttributeError, LookupError, TypeError, ValueError)
"""What the client raises on a kubeconfig that is no YAML, or none of the right form."""


@dataclass(frozen=True)
class Access:
    """Which cluster and namespace, by which kubeconfig; None: what is current there."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None

    def kubectl_options(self) -> list[str]:
        """Return what makes kubectl use the same cluster."""
        options = ["--context", self.context] if self.context else []
        return options + (["--kubeconfig", self.kubeconfig] if self.kubeconfig else [])


def access_options(command: _Command) -> _Command:
    """Give a command --namespace, --context and --kubeconfig."""
    for option in (
        click.option("--kubeconfig", type=click.Path(dir_okay=False), help="The kubeconfig."),
        click.option("--context", help="Context of the kubeconfig."),
        click.option("-n", "--namespace", help="Namespace; that of the kubeconfig when absent."),
    ):
        command = option(command)
    return command


class Cluster:
    """One connection, in one namespace. Its answers are documents; what is refused is `Denied`."""

    def __init__(self, api: Any, access: Access, namespace: str) -> None:
        self._api = api
        self.access = access
        self.namespace = namespace
        self.warnings: list[str] = []
        """What the API server and webhooks have warned of, each once."""

    async def deployment(self, name: str) -> Document:
        """Return an LLMDeployment.

        Raises:
            Denied: It is not there, the cluster has no such kind, or the user may not read it.
        """
        found = await self.get(deployment_path(self.namespace, name))
        if found is None:
            raise Denied(
                f"there is no {KIND} {name} in namespace {self.namespace}; "
                "kubectl get llmd -A lists them"
            )
        return found

    async def deployments(self) -> list[Document]:
        """Return every LLMDeployment of the namespace."""
        return await self.items(deployment_path(self.namespace, ""))

    async def gate_pods(self, name: str) -> list[Document]:
        """Return the pods of a deployment's gates, by name."""
        return await self.pods(names.gate_labels(name))

    async def pods(self, labels: Mapping[str, str]) -> list[Document]:
        """Return the pods of the namespace that have these labels, by name."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = await self.items(
            f"/api/v1/namespaces/{self.namespace}/pods", {"labelSelector": selector}
        )
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def items(self, path: str, query: Mapping[str, str] | None = None) -> list[Document]:
        """Return the objects of a collection."""
        return list((await self.get(path, query) or {}).get("items") or ())

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document | None:
        """Return a document, None where the object is not there.

        Raises:
            Denied: The user may not read it, or the cluster does not know such objects.
        """
        status, document = await self.call("GET", path, query=query)
        if status == 404 and _is_object_missing(document):
            return None
        if status >= 400:
            raise denied(status, document)
        found: Document = document
        return found

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        seconds: float = 30.0,
        as_text: bool = False,
    ) -> tuple[int, Any]:
        """Return status and document of any answer.

        Raises:
            Invalid: There was no answer.
        """
        from tidegate.shell.api_server import NoAnswer

        try:
            answer: tuple[int, Any] = await self._api.call(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                seconds=seconds,
                as_text=as_text,
                on_warning=self._warned,
            )
        except NoAnswer as error:
            raise unreachable(str(error)) from error
        return answer

    def _warned(self, told: str) -> None:
        if told not in self.warnings:
            self.warnings.append(told)


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[Cluster]:
    """Connect for a while.

    Raises:
        Invalid: There is no kubeconfig that can be used, or the cluster does not answer.
    """
    import yaml
    from kubernetes.aio.config import ConfigException

    from tidegate.shell import kubeconfig
    from tidegate.shell.api_server import ApiServer

    # it logs what it raises next, too; the error alone is one line
    logging.getLogger("kubernetes.aio.config").addHandler(logging.NullHandler())
    try:
        path = kubeconfig.of_user(access.kubeconfig)
        api = await ApiServer.connect(path, access.context)
        namespace = access.namespace or kubeconfig.namespace(path, access.context)
    except (ConfigException, yaml.YAMLError, *_ODD_CONFIG) as error:
        raise unreachable(f"no kubeconfig that can be used: {error}") from error
    try:
        yield Cluster(api, access, namespace)
    finally:
        await api.close()


def deployment_path(namespace: str, name: str) -> str:
    """Return where an LLMDeployment is; the collection where the name is empty."""
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}"
    return f"{path}/{name}" if name else path


def denied(status: int, document: object) -> Denied:
    """Say in one line why the API server refused, and what to do."""
    told = message_of(document)
    if status == 401:
        return Denied("the cluster does not know this user: log in again, or choose a --context")
    if "failed calling webhook" in told:
        return Denied(
            "the operator does not answer reviews, so nothing can be changed; look at "
            f"kubectl get pods -A -l app.kubernetes.io/name=tidegate ({told})"
        )
    if status == 403 and "denied the request" in told:
        return Denied(told.partition("denied the request: ")[2] or told)
    if status == 403:
        return Denied(f"{told}; {ROLE_GUIDE} to ask for")
    if status == 404:
        return Denied(
            f"the cluster does not know the kind {KIND}; install Tidegate "
            "(docs/guides/install.md), or choose another --context"
        )
    return Denied(told or f"the API server answered {status}")


def message_of(document: object) -> str:
    """Return the message of an answer, in one line."""
    told = document.get("message") if isinstance(document, dict) else document
    return " ".join(str(told if told is not None else json.dumps(document)).split())[:_LONGEST]


def line(error: Denied | Invalid) -> str:
    """Return what went wrong in one line."""
    return error.message if isinstance(error, Denied) else str(error)


def unreachable(told: str) -> Invalid:
    """Say that the cluster cannot be asked at all."""
    return Invalid([Problem("the cluster", " ".join(told.split())[:_LONGEST])])


def _is_object_missing(document: object) -> bool:
    """Tell an object that is not there from a kind that the cluster does not know."""
    details = document.get("details") if isinstance(document, dict) else None
    return isinstance(details, dict) and bool(details.get("name"))
