"""The webhook as API servers reach it: replicas behind one address, and its configurations."""

import asyncio
import contextlib
import copy
import json
import re
import socket
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from tests.shell.conftest import kubectl

from tidegate.core.admission import Facts
from tidegate.core.nodes import offers
from tidegate.shell import install_webhook
from tidegate.shell.admission.access import Access
from tidegate.shell.admission.certificate_secret import CertificateSecret
from tidegate.shell.admission.certificates import Lifetimes
from tidegate.shell.admission.keeper import SecretKeeper
from tidegate.shell.admission.metrics import AdmissionMetrics
from tidegate.shell.admission.registration import Registration
from tidegate.shell.admission.server import Server
from tidegate.shell.admission.verdict import Reviewer
from tidegate.shell.admission.webhook import Webhook
from tidegate.shell.admission.wire import Request

H100 = {
    "metadata": {
        "name": "h100-1",
        "labels": {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.memory": "81559",
            "nvidia.com/gpu.count": "8",
        },
    },
    "status": {"allocatable": {"nvidia.com/gpu": "8"}},
}
NODES = tuple(offers(H100))
PROBE = {
    "metadata": {"name": "probe"},
    "spec": {
        "model": {"id": "Qwen/Qwen3-0.6B"},
        "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 4096},
        "pools": {"unified": {}},
    },
}
"""What every webhook lets in."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


class OneCallServer(Server):
    """Has API servers make a new connection for each call: a handshake, and the next replica."""

    async def _answered(self, *arguments, **options):
        response = await super()._answered(*arguments, **options)
        response.force_close()
        return response


class Replica:
    """One operator's webhook, without the rest of the operator."""

    def __init__(self, api, namespace, name, *, facts, leads, lifetimes, look_seconds):
        self.port = free_port()
        self.registry = CollectorRegistry()
        metrics = AdmissionMetrics(self.registry)
        self.keeper = SecretKeeper(
            CertificateSecret(api, namespace),
            Registration(api, name, lambda: leads),
            ["127.0.0.1"],
            lifetimes,
        )
        self._facts = facts
        reviewer = Reviewer(lambda request: self._facts(request), Access(api))
        self.server = OneCallServer(reviewer, metrics)
        self.webhook = Webhook(self.server, self.keeper, metrics, self.port, look_seconds)
        self.task = asyncio.create_task(self.webhook.run())

    def answer_from(self, facts: Callable[[Request], Facts]) -> None:
        """Have another world from now on."""
        self._facts = facts

    def reviews(self, verdict: str = "") -> float:
        """Return how many reviews it has answered, all or of one verdict."""
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "tidegate_admissions_total"
            and verdict in ("", sample.labels["verdict"])
        )

    def calls(self) -> float:
        """Return how many calls it has had."""
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "tidegate_admission_seconds_count"
        )

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        await self.webhook.close()


class Balancer:
    """One address before all replicas, as a Service is: each connection goes to the next."""

    def __init__(self, ports: Callable[[], list[int]]) -> None:
        self._ports = ports
        self._turn = 0
        self._tasks: set[asyncio.Task] = set()
        self.port = free_port()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader, writer) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._relay(reader, writer)
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _relay(self, reader, writer) -> None:
        ports = self._ports()
        self._turn += 1
        if not ports:
            return
        to = ports[self._turn % len(ports)]
        there, back = await asyncio.open_connection("127.0.0.1", to)
        try:
            with contextlib.suppress(OSError):
                await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            back.close()

    async def _pump(self, reader, writer) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()


class WebhookWorld:
    """Replicas for one namespace, registered at the API server."""

    def __init__(self, api, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.name = f"tidegate-{namespace}"
        self.replicas: list[Replica] = []
        self.facts = Facts(nodes=NODES)
        self._balancer = Balancer(lambda: [r.port for r in self.replicas if r.webhook.is_ready()])

    async def register(self) -> None:
        """Apply the configurations that are installed, for this namespace and by a URL."""
        await self._balancer.start()
        for document in self._configurations():
            kubectl("apply", "-f", "-", input=json.dumps(document))

    async def replica(self, *, leads=True, lifetimes=None, look_seconds=0.2, facts=None) -> Replica:
        found = Replica(
            self.api,
            self.namespace,
            self.name,
            facts=facts or (lambda request: self.facts),
            leads=leads,
            lifetimes=lifetimes or Lifetimes(),
            look_seconds=look_seconds,
        )
        self.replicas.append(found)
        return found

    async def ready(self) -> None:
        """Wait until every replica is ready, and API servers have read the configurations."""
        await until(lambda: all(r.webhook.is_ready() for r in self.replicas))
        end = time.monotonic() + 20
        while (await self.create(PROBE, dry=True))[0] >= 500:
            assert time.monotonic() < end, "the API server does not reach the webhook"
            await asyncio.sleep(0.1)

    async def create(self, document, *, dry=False):
        """Create a resource in the namespace; return the status and the answer."""
        path = f"/apis/tidegate.io/v1alpha1/namespaces/{self.namespace}/llmdeployments"
        body = {"apiVersion": "tidegate.io/v1alpha1", "kind": "LLMDeployment", **document}
        body["metadata"] = {**body["metadata"], "namespace": self.namespace}
        query = {"dryRun": "All"} if dry else {}
        return await self.api.call("POST", path, body=body, query=query)

    async def told(self, document):
        """Create a resource as a dry run; return the status, the answer and its warnings."""
        place = f"/apis/tidegate.io/v1alpha1/namespaces/{self.namespace}/llmdeployments"
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        answer = await self.api._send("POST", place, query, document, "application/json", 30)
        warnings = [_unquoted(text) for text in answer.headers.getall("Warning", ())]
        return answer.status, await answer.json(), warnings

    async def close(self) -> None:
        for document in self._configurations():
            kubectl("delete", document["kind"], self.name, "--ignore-not-found")
        for replica in self.replicas:
            await replica.stop()
        await self._balancer.stop()

    def _configurations(self):
        for document in install_webhook.objects("nowhere"):
            if document["kind"] == "Service":
                continue
            document = copy.deepcopy(document)
            document["metadata"]["name"] = self.name
            for hook in document["webhooks"]:
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{self._balancer.port}{path}"
                ours = {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "In",
                    "values": [self.namespace],
                }
                hook["namespaceSelector"]["matchExpressions"].append(ours)
            yield document


def _unquoted(warning: str) -> str:
    """Return the text of a Warning header (RFC 7234): `299 - "text"`."""
    match = re.fullmatch(r'299 \S+ "(.*)"', warning)
    return re.sub(r"\\(.)", r"\1", match[1]) if match else warning
