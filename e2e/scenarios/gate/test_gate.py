"""What clients see who talk to `http://<name>.<namespace>`: the official SDK, curl, a plain socket.

The engines are doubles; test_examples has the same with real vLLM.
"""

import concurrent.futures
import json
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import openai
import pytest
from e2e import gates, llmd
from e2e.kube import Not, wait_until
from e2e.llmd import REVISION, env, is_ready

HERE = Path(__file__).parent
MODEL = "tiny"
WORD_SECONDS = 30.0
CHAT = [{"role": "user", "content": "hello " * 20}]
FILES = {"unified": "unified.yaml", "pair": "pair.yaml"}


@pytest.fixture(scope="module")
def deployments(kube, shared_namespace):
    """A unified deployment and a pair, both ready."""
    made = {mode: llmd.apply(kube, shared_namespace, HERE / FILES[mode]) for mode in FILES}
    for deployment in made.values():
        deployment.wait_ready()
    return made


@pytest.fixture(params=list(FILES))
def mode(request):
    return request.param


def client(deployment, **options):
    return openai.OpenAI(base_url=f"{deployment.address}/v1", api_key="none", **options)


def curl(*words):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "20", *words], capture_output=True, text=True, check=True
    )
    return done.stdout


# where it is


def test_the_status_says_where_clients_connect(deployments, mode):
    deployment = deployments[mode]
    status = deployment.status

    assert status["address"] == f"http://{deployment.name}.{deployment.namespace}.svc"
    assert status["gate"] == {"desired": 2, "ready": 2}


def test_a_pod_of_the_cluster_reaches_it_by_name(kube, deployments, mode):
    deployment = deployments[mode]
    name = deployment.gates()[0]["metadata"]["name"]
    script = (
        "import urllib.request as r, sys;"
        f"print(r.urlopen('http://{deployment.name}.{deployment.namespace}/v1/models').read().decode())"
    )

    told = kube.kubectl("exec", "-n", deployment.namespace, name, "--", "python", "-c", script)

    assert [model["id"] for model in json.loads(told)["data"]] == [MODEL]


def test_gates_spread_over_nodes_and_run_the_operators_image(kube, operator, deployments):
    (image,) = {pod["spec"]["containers"][0]["image"] for pod in operator.pods()}
    pods = deployments["unified"].gates()

    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {image}
    assert len({llmd.node_of(pod) for pod in pods}) == 2


# the official client


def test_the_official_client_chats(local, deployments, mode):
    answer = client(deployments[mode]).chat.completions.create(
        model=MODEL, messages=CHAT, max_tokens=8
    )

    assert answer.choices[0].message.content
    assert answer.usage.completion_tokens == 8


def test_the_official_client_streams(local, deployments, mode):
    stream = client(deployments[mode]).chat.completions.create(
        model=MODEL, messages=CHAT, max_tokens=8, stream=True
    )
    chunks = list(stream)

    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "length"
    assert all(chunk.usage is None for chunk in chunks), "usage was not asked for"


def test_the_official_client_gets_usage_where_it_asks_for_it(local, deployments, mode):
    stream = client(deployments[mode]).completions.create(
        model=MODEL,
        prompt=" hello" * 20,
        max_tokens=4,
        stream=True,
        stream_options={"include_usage": True},
    )
    *_, last = stream

    assert last.usage.completion_tokens == 4


def test_the_official_client_raises_what_it_should(local, deployments, mode):
    told = client(deployments[mode], max_retries=0)

    with pytest.raises(openai.NotFoundError):
        told.completions.create(model="another", prompt="a", max_tokens=1)
    with pytest.raises(openai.BadRequestError) as refused:
        told.completions.create(model=MODEL, prompt=" hello" * 4000, max_tokens=1)
    assert refused.value.response.headers["x-tidegate-reason"] == "too-long"


def test_a_cancelled_stream_gives_its_tokens_back(local, deployments, mode):
    deployment = deployments[mode]
    stream = client(deployment).completions.create(
        model=MODEL,
        prompt=" hello" * 50,
        max_tokens=1900,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    assert gates.reserved(deployment) > 0

    stream.close()

    wait_until(
        "no token is reserved", lambda: not (held := gates.reserved(deployment)) or Not(held), 10
    )


# curl


def test_curl_completes_and_streams(local, deployments, mode):
    url = f"{deployments[mode].address}/v1/completions"
    asked = {"model": MODEL, "prompt": " hello" * 10, "max_tokens": 4}
    words = (url, "-H", "Content-Type: application/json", "-d")

    whole = json.loads(curl(*words, json.dumps(asked)))
    stream = curl("-N", *words, json.dumps({**asked, "stream": True}))

    assert whole["usage"]["completion_tokens"] == 4
    events = [line.removeprefix("data: ") for line in stream.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert all(json.loads(event)["model"] == MODEL for event in events[:-1])


def test_curl_keeps_its_connection_over_several_requests(local, deployments):
    url = f"{deployments['unified'].address}/v1/models"

    told = curl("-v", "--stderr", "-", url, url, url)

    assert told.count("Connected to") == 1
    assert told.count('"object":"list"') + told.count('"object": "list"') == 3


# what the operator does


def test_a_change_of_the_gate_reaches_it_and_restarts_nobody(deployments):
    deployment = deployments["unified"]
    uids = deployment.uids(), {pod["metadata"]["uid"] for pod in deployment.gates()}
    deployment.patch({"gate": {"maxQueue": 7}})
    generation = deployment.document["metadata"]["generation"]

    def probe():
        found = [gates.document(deployment, gate, "/configz") for gate in deployment.gates()]
        has = all(told["valid"] and told["generation"] == generation for told in found)
        return has or Not(found)

    wait_until("both gates have the configuration", probe, WORD_SECONDS)
    deployment.wait_ready()
    assert (deployment.uids(), {pod["metadata"]["uid"] for pod in deployment.gates()}) == uids


def test_a_configuration_that_somebody_broke_is_put_right_while_gates_serve_on(kube, deployments):
    deployment = deployments["unified"]
    name = f"{deployment.name}-gate"
    words = ("patch", "configmap", name, "-n", deployment.namespace, "--type=merge", "-p")
    kube.kubectl(*words, json.dumps({"data": {"gate.json": "{}"}}))

    def probe():
        text = kube.get("configmaps", deployment.namespace, name)["data"]["gate.json"]
        return json.loads(text).get("deployment") == deployment.name or Not(text[:80])

    wait_until("the operator wrote it anew", probe, WORD_SECONDS)
    deployment.wait_ready()
    assert all(map(is_ready, deployment.gates()))


def test_a_pair_is_available_once_a_request_went_through_it(deployments):
    deployment = deployments["pair"]

    deployment.wait_for("Available", "True", "PoolsAvailable")

    for pool in ("prefill", "decode"):
        (pod,) = deployment.pods(pool)
        text = deployment.kube.text(
            f"/api/v1/namespaces/{deployment.namespace}/pods/{pod['metadata']['name']}:8000"
            "/proxy/metrics"
        )
        assert "vllm:request_success_total" in text


def test_an_update_of_the_engines_loses_no_request(local, deployments):
    deployment = deployments["unified"]
    before = {pod["metadata"]["labels"][REVISION] for pod in deployment.pods()}
    with Clients(deployment.address, 4) as clients:
        deployment.patch({"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02)}})
        deployment.wait_settled(150)
        after = {pod["metadata"]["labels"][REVISION] for pod in deployment.pods()}
        clients.wait_for(50)

    assert before.isdisjoint(after)
    assert clients.failures == []


def test_a_gate_that_is_taken_away_is_missed_by_nobody(local, kube, deployments):
    deployment = deployments["unified"]
    gone, _ = deployment.gates()
    with Clients(deployment.address, 4) as clients:
        clients.wait_for(20)
        kube.kubectl("delete", "pod", gone["metadata"]["name"], "-n", deployment.namespace)
        wait_until(
            "there are two gates again",
            lambda: [is_ready(pod) for pod in deployment.gates()] == [True, True],
            60,
        )
        clients.wait_for(50)

    assert clients.failures == []


def test_a_gate_that_is_switched_off_is_gone_and_comes_back(deployments):
    deployment = deployments["unified"]
    uids = deployment.uids()
    deployment.patch({"gate": {"enabled": False}})
    wait_until("no gate is left", lambda: deployment.gates() == [], 60)
    assert "address" not in deployment.wait_ready()

    deployment.patch({"gate": {"enabled": None}})
    deployment.wait_ready()

    assert len(deployment.gates()) == 2
    assert deployment.uids() == uids


class Clients:
    """Clients that ask all the time, each with a connection of its own for every request."""

    def __init__(self, url, count):
        self.failures = []
        self.done = 0
        self._url = f"{url}/v1/completions"
        self._over = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(count)
        self._count = count

    def __enter__(self):
        for _ in range(self._count):
            self._pool.submit(self._ask)
        return self

    def __exit__(self, *_):
        self._over.set()
        self._pool.shutdown()

    def wait_for(self, more):
        """Wait until so many more requests were answered."""
        wanted = self.done + more
        wait_until(f"{more} answers", lambda: self.done >= wanted or Not(self.failures), 60)

    def _ask(self):
        body = json.dumps({"model": MODEL, "prompt": " hello" * 10, "max_tokens": 20}).encode()
        headers = {"Content-Type": "application/json"}
        while not self._over.is_set():
            try:
                asked = urllib.request.Request(self._url, body, headers)
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    choice = json.load(answer)["choices"][0]
                assert choice["finish_reason"] in ("length", "stop"), choice
                self.done += 1
            except Exception as error:  # whatever a client sees is a failure of the test
                self.failures.append(repr(error))
            time.sleep(0.02)
