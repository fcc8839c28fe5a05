"""An API server as far as the commands of whoever is on call ask one, with gates behind its proxy.

`tests/shell` has the real one; this one counts, fails and refuses as it is told.
"""

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import yaml

NAMESPACE = "chat"


@dataclass
class Call:
    """One request that came."""

    method: str
    path: str
    query: dict
    body: object


@dataclass
class FakeCluster:
    """What is there, by path. `refuse` maps (method, start of a path) to (status, document).

    With `operates` an operator takes note of each lever; `warnings` come with each PATCH and POST.
    """

    objects: dict = field(default_factory=dict)
    texts: dict = field(default_factory=dict)
    refuse: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)
    operates: bool = False
    warnings: list = field(default_factory=list)

    def deployment(self, name="qwen", **changes):
        """Have an LLMDeployment; `changes` are keys of its top."""
        document = {
            "apiVersion": "tidegate.io/v1alpha1",
            "kind": "LLMDeployment",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}",
                "generation": 1,
                "resourceVersion": "7",
            },
            "spec": {"model": {"id": "Qwen/Qwen3-0.6B"}, "gate": {"enabled": True}},
            "status": {
                "observedGeneration": 1,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Serving"}],
            },
            **changes,
        }
        self.objects[resource_path(name)] = document
        return document

    def gate(self, pod, podz, metrics, deployment="qwen"):
        """Have the pod of a gate; `metrics()` is asked at each read."""
        labels = {"app.kubernetes.io/component": "gate", "tidegate.io/deployment": deployment}
        self.pod(pod, labels)
        proxy = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:9090/proxy"
        self.texts[f"{proxy}/podz"] = lambda: json.dumps(podz)
        self.texts[f"{proxy}/metrics"] = metrics
        self.texts[f"{proxy}/configz"] = lambda: json.dumps({"generation": 1, "valid": True})

    def pod(self, name, labels, **changes):
        """Have a pod."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        self.objects[path] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": f"uid-{name}",
                "labels": labels,
            },
            "spec": {"containers": [{"name": "engine"}], "nodeName": "n1"},
            **changes,
        }
        return self.objects[path]

    def called(self, method):
        """Return the requests of a method that came."""
        return [call for call in self.calls if call.method == method]

    def answer(self, call):
        """Return status and document (or text) for a request."""
        for (method, start), refusal in self.refuse.items():
            if method == call.method and call.path.startswith(start):
                return refusal
        if call.path in self.texts:
            return 200, self.texts[call.path]()
        if call.path in self.objects:
            return 200, self._object(call)
        listed = {
            path: each
            for path, each in self.objects.items()
            if path.rpartition("/")[0] == call.path and _is_selected(each, call.query)
        }
        if call.method == "GET" and not call.path.rsplit("/", 1)[1].startswith("missing"):
            known = call.path.rsplit("/", 1)[1] in _PLURALS
            return (200, {"items": list(listed.values())}) if known else _missing(call.path)
        return _missing(call.path)

    def _object(self, call):
        stored = self.objects[call.path]
        if call.method == "PATCH":
            patched = merged(stored, call.body)
            if "dryRun" not in call.query:
                self.objects[call.path] = patched
            if self.operates:
                patched["status"] = {**patched["status"], "overload": overload(patched)}
            return patched
        return stored


_PLURALS = {
    "configmaps",
    "deployments",
    "events",
    "llmdeployments",
    "networkpolicies",
    "poddisruptionbudgets",
    "pods",
    "services",
}


def resource_path(name):
    """Return where an LLMDeployment is."""
    return f"/apis/tidegate.io/v1alpha1/namespaces/{NAMESPACE}/llmdeployments/{name}"


def overload(resource):
    """Return the `status.overload` that an operator writes of a lever, or of none."""
    lever = resource["spec"].get("overload", {}).get("override")
    percent = {lever["action"]: lever.get("percent", 0)} if lever else {}
    return {
        "state": "Override" if lever else "Normal",
        "shedPercent": percent.get("Shed", 0),
        "shiftPercent": percent.get("Shift", 0),
        "message": "what the operator says",
    } | ({"override": lever} if lever else {})


def merged(stored, patch):
    """Return a document after a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(stored) if isinstance(stored, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def serve(cluster):
    """Serve a cluster on loopback; return the server, which the caller ends by `end`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cluster))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def end():
        server.shutdown()
        thread.join()
        server.server_close()

    return server.server_port, end


def write_kubeconfig(path: Path, port: int) -> str:
    """Write a kubeconfig of the cluster."""
    server = {"server": f"http://127.0.0.1:{port}"}
    context = {"cluster": "fake", "user": "robin", "namespace": NAMESPACE}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": server}],
        "users": [{"name": "robin", "user": {}}],
        "contexts": [{"name": "fake", "context": context}],
        "current-context": "fake",
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def _is_selected(document, query):
    labels = document["metadata"].get("labels") or {}
    wanted = [part.split("=") for part in query.get("labelSelector", "").split(",") if part]
    return all(labels.get(key) == value for key, value in wanted)


def _missing(path):
    name = path.rsplit("/", 1)[1]
    return 404, {"kind": "Status", "message": f"{name} not found", "details": {"name": name}}


def _handler(cluster):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            call = Call(self.command, parts.path, query, body)
            cluster.calls.append(call)
            status, told = cluster.answer(call)
            data = (told if isinstance(told, str) else json.dumps(told)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            for told in cluster.warnings if self.command != "GET" else ():
                self.send_header("Warning", told)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PATCH = do_POST = _answer  # noqa: N815  # http.server's own names

        def log_message(self, *arguments):
            """Say nothing."""

    return Handler
