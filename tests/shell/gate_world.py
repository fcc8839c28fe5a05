"""What a gate in a cluster has around it: an account, a line to the API server, an engine."""

import base64
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml
from tests.shell.conftest import kubectl

from tidegate.api.gate_config import GateConfig
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.render import gate as rendered
from tidegate.core.render.network import Readers

SLICE = "qwen-unified-aaaa-cpu"
CONFIG = {
    "deployment": "qwen",
    "generation": 1,
    "models": ["tiny"],
    "maxModelLen": 2048,
    "gateService": "qwen",
    "services": {"unified": "qwen-unified"},
    "slices": [
        {
            "name": SLICE,
            "pool": "unified",
            "revision": "aaaa",
            "nodeClass": "cpu",
            "kvBlocks": 512,
            "kvTokens": 8192,
            "groups": [{"blockTokens": 16}],
            "maxNumSeqs": 16,
        }
    ],
    "revisions": [{"name": "aaaa", "weight": 1}],
}


def until(condition, seconds=60):
    """Wait until something is so, and return it."""
    end = time.monotonic() + seconds
    while not (got := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
    return got


def apply(document):
    """Apply one object as the cluster's administrator."""
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(document))


def gate_pod(namespace: str, name: str, address: str) -> None:
    """Make the pod of a gate, as kubelet would tell of it."""
    apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {
                    "app.kubernetes.io/component": "gate",
                    "tidegate.io/deployment": "qwen",
                },
            },
            "spec": {"containers": [{"name": "gate", "image": "none:1"}]},
        }
    )
    told = {"status": {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}}
    kubectl(
        *("patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps(told)),
    )


class Line:
    """A TCP line to the API server that a test can cut."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._is_up = True
        self._selector = selectors.DefaultSelector()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._ended = threading.Event()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Break every connection, and let no new one in."""
        self._is_up = False

    def mend(self) -> None:
        """Let new connections in again."""
        self._is_up = True

    def close(self) -> None:
        """End."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            if not self._is_up:
                for one in list(self._pairs):
                    self._drop(one)
            for key, _ in self._selector.select(0.02):
                self._serve(key.fileobj)
        for one in list(self._pairs):
            self._drop(one)
        self._selector.close()
        self._listening.close()

    def _serve(self, ready: socket.socket) -> None:
        if ready is self._listening:
            client, _ = self._listening.accept()
            if not self._is_up:
                client.close()
                return
            server = socket.create_connection(self._to)
            self._pairs |= {client: server, server: client}
            for one in (client, server):
                self._selector.register(one, selectors.EVENT_READ)
        elif ready in self._pairs:
            try:
                data = ready.recv(65536)
                if data:
                    self._pairs[ready].sendall(data)
                    return
            except OSError:
                pass  # the same as an end
            self._drop(ready)

    def _drop(self, one: socket.socket) -> None:
        for end in (one, self._pairs.get(one)):
            if end is not None and self._pairs.pop(end, None) is not None:
                self._selector.unregister(end)
                end.close()


class GateWorld:
    """The objects that the operator renders for a gate, in a namespace; and gates as processes.

    A gate runs by the rendered account and reaches the API server over `line`.
    """

    def __init__(self, namespace: str, kubeconfig: str, folder: Path) -> None:
        self.namespace = namespace
        self.folder = folder
        cluster = yaml.safe_load(Path(kubeconfig).read_text())["clusters"][0]["cluster"]
        host, port = cluster["server"].removeprefix("https://").split(":")
        self.line = Line((host, int(port)))
        self.address = _own_address(host, int(port))
        self.processes: list[GateProcess] = []
        self._authority = cluster

    def install(self, engine_port: int) -> None:
        """Create what the operator would, but for the Deployment; and the account's token."""
        self.config = {**CONFIG, "namespace": self.namespace, "enginePort": engine_port}
        spec = LLMDeploymentSpec.model_validate(
            {
                "model": {"id": "Qwen/Qwen3-0.6B"},
                "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 2048},
                "pools": {"unified": {"replicas": 1}},
            }
        )
        config = GateConfig.model_validate_json(json.dumps(self.config))
        wanted = ("ServiceAccount", "Role", "RoleBinding", "ConfigMap")
        for document in rendered.objects(spec, config, Readers(), rendered.Image()):
            if document["kind"] in wanted:
                apply(document)
        account = self.folder / "account"
        account.mkdir()
        (account / "token").write_text(
            kubectl("create", "token", "qwen-gate", "-n", self.namespace).stdout
        )
        (account / "ca.crt").write_bytes(
            base64.b64decode(self._authority["certificate-authority-data"])
            if "certificate-authority-data" in self._authority
            else Path(self._authority["certificate-authority"]).read_bytes()
        )

    def configure(self, text: str | None = None, **changes: object) -> None:
        """Write the configuration, as text or by what differs from the first one."""
        data = {"gate.json": text or json.dumps({**self.config, **changes})}
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "qwen-gate", "namespace": self.namespace},
            "data": data,
        }
        apply(document)

    def endpoints(self, *pods: str, service: str = "qwen-unified", **conditions: bool) -> None:
        """Say which pods a Service has, all at this machine's address."""
        entries = [
            {
                "addresses": [self.address],
                "conditions": {"ready": True, **conditions},
                "targetRef": {"kind": "Pod", "name": pod, "namespace": self.namespace},
            }
            for pod in pods
        ]
        document = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{service}-x1",
                "namespace": self.namespace,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": self.config["enginePort"]}],
            "endpoints": entries,
        }
        apply(document)

    def start(self, host: str = "127.0.0.1", admin_port: int | None = None) -> "GateProcess":
        """Start a gate, whose copies are those of the one before."""
        process = GateProcess(self, host, admin_port or _free_port())
        self.processes.append(process)
        until(lambda: process.admin("/healthz")[0] == 200)
        return process

    def close(self) -> None:
        """End every gate and the line."""
        for process in self.processes:
            process.kill()
        self.line.close()


class GateProcess:
    """A gate as a process."""

    def __init__(self, world: GateWorld, host: str, admin_port: int) -> None:
        self.port, self.admin_port, self._host = _free_port(), admin_port, host
        self._log = world.folder / f"gate-{len(world.processes)}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tidegate", "gate", "--host", host),
                    *("--namespace", world.namespace, "--deployment", "qwen"),
                    *("--port", str(self.port), "--admin-port", str(self.admin_port)),
                    *("--state-dir", str(world.folder / "state"), "--linger", "0.2"),
                    *("--api-server", f"https://127.0.0.1:{world.line.port}"),
                    *("--account-dir", str(world.folder / "account")),
                ],
                stderr=log,
                env={**os.environ, "KUBECONFIG": "/nowhere"},
            )

    def admin(self, path: str) -> tuple[int | None, str]:
        """Ask the second port."""
        return _fetch(f"http://{self._host}:{self.admin_port}{path}")

    def told(self) -> dict:
        """Return what it says of its configuration."""
        return json.loads(self.admin("/configz")[1])

    def ask(self, **changes: object) -> tuple[int | None, str]:
        """Ask for a completion."""
        body = {"model": "tiny", "prompt": "The tide", "max_tokens": 4, **changes}
        return _fetch(
            f"http://{self._host}:{self.port}/v1/completions", data=json.dumps(body).encode()
        )

    def serves(self) -> bool:
        """Tell whether a completion comes."""
        return self.ask()[0] == 200

    def metric(self, line: str) -> bool:
        """Tell whether this line is among the metrics."""
        return line in self.admin("/metrics")[1].splitlines()

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text()

    def stop(self) -> int:
        """Tell it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


def _fetch(url: str, data: bytes | None = None) -> tuple[int | None, str]:
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return None, ""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


def _own_address(host: str, port: int) -> str:
    """Return this machine's address in the cluster: endpoints may not be on loopback."""
    with socket.create_connection((host, port)) as made:
        return made.getsockname()[0]
