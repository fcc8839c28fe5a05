"""What `helm test` runs, against a server that answers as an API server does."""

import http.server
import json
import runpy
import subprocess
import sys
import threading

import pytest
from tests.chart import helm
from tests.chart.helm import CHART, one, render

SCRIPT = runpy.run_path(str(CHART / "files" / "test_installation.py"))


@pytest.fixture
def server():
    """A server that refuses what asks for three GPUs, and keeps what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, self.headers["Authorization"], body))
            refused = body["spec"]["pools"]["unified"]["tensorParallel"] == 3
            answer = {"message": "ParallelismInvalid: no"} if refused else body
            self.send_response(403 if refused else 201)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_):
            pass

    serving = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}", asked
    serving.shutdown()
    thread.join()
    serving.server_close()


def _ask(server, tensor_parallel, monkeypatch):
    monkeypatch.setenv("ENGINE_IMAGE", "docker.io/vllm/vllm-openai:v0.32.0")
    document = SCRIPT["resource"]("x", tensor_parallel)
    return SCRIPT["dry_run"](server, "token", None, "tg", document)


def test_it_asks_as_its_account_for_a_dry_run_in_its_namespace(server, monkeypatch):
    url, asked = server

    assert _ask(url, 1, monkeypatch) == (201, "")
    (path, authorization, _) = asked[0]
    assert path == "/apis/tidegate.io/v1alpha1/namespaces/tg/llmdeployments?dryRun=All"
    assert authorization == "Bearer token"


def test_it_reads_why_it_was_refused(server, monkeypatch):
    assert _ask(server[0], 3, monkeypatch) == (403, "ParallelismInvalid: no")


def test_a_server_that_is_not_there_is_told(monkeypatch):
    status, message = _ask("http://127.0.0.1:1", 1, monkeypatch)

    assert status == 0
    assert "cannot be reached" in message


@pytest.mark.parametrize(
    ("status", "message", "is_good", "is_right"),
    [
        (201, "", True, True),
        (403, "AccessDenied: no", True, False),
        (404, "the server could not find the requested resource", True, False),
        (403, "ParallelismInvalid: 3 does not divide 16", False, True),
        (201, "", False, False),
        (500, "failed calling webhook: connection refused", False, False),
        (0, "the API server cannot be reached", False, False),
    ],
)
def test_only_the_right_answer_passes(status, message, is_good, is_right):
    right, sentence = SCRIPT["judged"](status, message, is_good)

    assert right is is_right
    assert message in sentence


@pytest.mark.parametrize(("tensor_parallel", "code", "said"), [(1, 0, ""), (3, 1, "Parallelism")])
def test_its_resources_are_judged_as_it_expects(tensor_parallel, code, said, monkeypatch):
    monkeypatch.setenv("ENGINE_IMAGE", "docker.io/vllm/vllm-openai:v0.32.0")
    document = SCRIPT["resource"]("x", tensor_parallel)
    words = ["-m", "tidegate", "check", "-f", "-", "--gpu", "NVIDIA-H100-80GB-HBM3"]
    done = subprocess.run(
        [sys.executable, *words], input=json.dumps(document), capture_output=True, text=True
    )

    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout


@pytest.mark.parametrize(
    ("values", "image", "reviews"),
    [
        ({}, "docker.io/vllm/vllm-openai:v0.32.0", "true"),
        ({"webhook": {"enabled": False}}, "docker.io/vllm/vllm-openai:v0.32.0", "false"),
        (
            {"webhook": {"exemptNamespaces": [helm.NAMESPACE]}},
            "docker.io/vllm/vllm-openai:v0.32.0",
            "false",
        ),
        (
            {"config": {"admission": {"registries": ["ghcr.io/team"], "digestsOnly": True}}},
            f"ghcr.io/team/vllm-openai:v0.32.0@sha256:{'0' * 64}",
            "true",
        ),
    ],
    ids=["defaults", "no webhook", "exempt", "rules for images"],
)
def test_it_asks_for_what_the_settings_let_in(values, image, reviews):
    (container,) = one(render(values), "Pod", "tidegate-test")["spec"]["containers"]
    told = {entry["name"]: entry["value"] for entry in container["env"]}

    assert told == {"ENGINE_IMAGE": image, "NAMESPACE": helm.NAMESPACE, "REVIEWS": reviews}
    assert container["args"] == [(CHART / "files" / "test_installation.py").read_text()]
