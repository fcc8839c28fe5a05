"""Engines that hang, lie and die, pools that are gone, gates that come and go: what clients see.

Real gates before engine doubles that go wrong on demand; clients stream by the official SDK.
"""

import json
import signal
import subprocess
import time
from pathlib import Path

import openai
import pytest
from e2e import engine_faults, gates, llmd, pod_processes
from e2e.engine import metrics
from e2e.kube import Not, wait_until
from e2e.llmd import env, is_ready
from e2e.streams import Streams

HERE = Path(__file__).parent
TIDEGATE = HERE.parents[2] / ".venv" / "bin" / "tidegate"
MODEL = "tiny"
PER_SECOND = 8.0
SOON, LATER = 30.0, 90.0
"""For what takes seconds, and for what takes a start of a pod: machines are busy."""
CALM_SECONDS = 1.0
"""Less than a pod is left alone for."""
STALE_SECONDS = 4.0
"""Several times the second between two reads of a pod by one of two gates."""
SCRAPES = "tidegate_gate_scrapes_total"
HEADROOM = 0.95
"""Share of an engine's blocks that gates plan with."""
FULL = {
    "engine": {"env": env(DOUBLE_STEP_SECONDS=0.05)},
    "gate": {"deadlines": None},
    "pools": {"unified": {"replicas": 1}},
}
"""One engine whose KV cache is what clients contend for: about 20 of them, for 6 s each."""


@pytest.fixture(scope="module")
def world(kube, local, shared_namespace):
    """All deployments of this module, which start together."""
    made = {
        "tiny": llmd.apply(kube, shared_namespace, HERE / "unified.yaml"),
        "full": llmd.apply(kube, shared_namespace, HERE / "unified.yaml", "full", FULL),
        "pair": llmd.apply(kube, shared_namespace, HERE / "pair.yaml"),
    }
    for deployment in made.values():
        deployment.wait_ready()
    return made


def name_of(pod):
    return pod["metadata"]["name"]


def served(kube, pod):
    """Requests that an engine has answered since its start."""
    page = metrics.parse(kube.text(f"{kube.pod_path(pod, 8000)}/metrics"))
    return page.value("vllm:request_success_total")


@pytest.fixture(scope="class")
def tiny(world):
    """The deployment of the two engines."""
    return world["tiny"]


@pytest.fixture(scope="class")
def clients(tiny):
    """Clients of both engines; what each of them meets is kept."""
    with Streams(tiny.address, PER_SECOND) as streaming:
        yield streaming


@pytest.fixture
def engines(tiny, clients):
    """Both engines, once no gate leaves one of them alone."""
    wait_until("no gate leaves an engine alone", lambda: not left_alone(tiny), LATER)
    return tiny.pods()


class TestEngines:
    """Two engines, one of which goes wrong at a time."""

    @pytest.mark.parametrize(
        ("number", "fault", "told"),
        [
            (0, "hang", "no first token"),
            (1, "status", None),
            (0, "html", None),
            (1, "broken-chunk", "not an answer"),
            (0, "half-event", "JSONDecodeError"),  # half of it was passed on
            (1, "reset", "closed the connection"),
        ],
    )
    def test_one_that_goes_wrong_is_left_alone_and_comes_back(
        self, kube, tiny, clients, engines, number, fault, told
    ):
        engine, begun = engines[number], time.monotonic()
        with engine_faults.failing(kube, engine, answers=fault):
            gates_leave_alone(tiny, engine)
            calm = time.monotonic()
            time.sleep(CALM_SECONDS)
        before = served(kube, engine)

        wait_until("it serves again", lambda: served(kube, engine) > before, LATER)
        met = [one for one in clients.done if one.begun >= begun and not one.is_whole]
        during = [one for one in clients.done if 0 <= one.begun - calm < CALM_SECONDS]
        assert during, "clients came while it was left alone"
        assert [one for one in during if not one.is_whole] == [], "the other one serves"
        assert all(one.fault for one in met), "no client takes a broken answer for a whole one"
        if told is None:
            assert met == [], "another engine makes it good before the first byte"
        else:
            assert all(told in one.fault for one in met), met

    def test_one_that_is_killed_amid_streams_breaks_them_visibly_and_comes_back(
        self, kube, tiny, clients, engines
    ):
        engine, begun = engines[0], time.monotonic()
        pod_processes.send(engine, pod_processes.DOUBLE, signal.SIGKILL)

        def probe():
            found = kube.get("pods", tiny.namespace, name_of(engine))
            return (pod_processes.restarts(found) and is_ready(found)) or Not("it is not back")

        wait_until("its container is started again", probe, LATER)
        # its counters begin anew, and gates read them as they are
        wait_until("it serves again", lambda: (served(kube, engine) or 0) > 2, LATER)
        wait_until("gates read it again", lambda: max(ages(tiny, engine)) < STALE_SECONDS, SOON)
        met = [one for one in clients.done if one.begun >= begun and not one.is_whole]
        assert all(one.fault for one in met), met

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("gone", "status"), ("slow", "timeout")),
            (("html", "unreadable"), ("foreign", "unreadable")),
            (("huge", "too-large"), ("nan", "incomplete")),
        ],
        ids=lambda pair: pair[0],
    )
    def test_metrics_that_tell_nothing_are_done_without(
        self, kube, kubeconfig, tiny, clients, engines, first, second
    ):
        results = {first[1], second[1]}
        before = {one: gates.counted(tiny, SCRAPES, result=one) for one in results}
        begun = time.monotonic()
        with (
            engine_faults.failing(kube, engines[0], metrics=first[0]),
            engine_faults.failing(kube, engines[1], metrics=second[0]),
        ):
            wait_until("gates know that they know nothing", lambda: is_stale(tiny, engines), SOON)
            shown = status(kubeconfig, tiny)["pods"]

        assert all(pod["scrapeAgeSeconds"] >= STALE_SECONDS / 2 for pod in shown), shown
        for one in results:
            assert gates.counted(tiny, SCRAPES, result=one) > before[one]
        wait_until("gates read them again", lambda: is_fresh(tiny, engines), SOON)
        met = [one for one in clients.done if one.begun >= begun and not one.is_whole]
        assert met == [], "their own ledger is enough"


def left_alone(deployment):
    """The engines that a gate leaves alone."""
    return {view["name"] for view in gates.views(deployment) if view["ejected"]}


def gates_leave_alone(deployment, engine):
    """Wait until every gate leaves an engine alone."""

    def probe():
        found = [view["ejected"] for view in gates.views(deployment, name_of(engine))]
        return found == [True, True] or Not(found)

    wait_until("every gate leaves it alone", probe, SOON)


def ages(deployment, engine):
    """Seconds since each gate was told what an engine's cache holds."""
    return [view["scrapeAgeSeconds"] for view in gates.views(deployment, name_of(engine))]


def is_stale(deployment, engines):
    found = [ages(deployment, engine) for engine in engines]
    return all(min(one) > STALE_SECONDS for one in found) or Not(found)


def is_fresh(deployment, engines):
    found = [ages(deployment, engine) for engine in engines]
    return all(max(one) < STALE_SECONDS / 2 for one in found) or Not(found)


def status(kubeconfig, deployment):
    """What `kubectl tidegate status` shows."""
    words = ("status", deployment.name, "-n", deployment.namespace, "-o", "json")
    done = subprocess.run(
        [TIDEGATE, *words, "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        timeout=LATER,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_pair_without_a_decode_pod_says_so_and_when_to_come_back(world):
    pair = world["pair"]
    take_away(pair, "decode")

    refused = wait_until("clients are told of no decode pod", lambda: refusal(pair), SOON)
    assert refused.response.headers["x-tidegate-reason"] == "no-decode"
    assert 1 <= int(refused.response.headers["retry-after"]) <= 60
    assert "No decode engine is ready." in refused.message
    says_that_a_pool_is_missing(pair)

    pair.wait_ready(LATER)
    assert ask(pair).choices[0].finish_reason == "length"


def test_a_pair_without_a_prefill_pod_is_served_by_its_decode_pods(world):
    pair = world["pair"]
    take_away(pair, "prefill")

    says_that_a_pool_is_missing(pair)
    assert ask(pair).choices[0].finish_reason == "length"

    pair.wait_ready(LATER)
    assert ask(pair).choices[0].finish_reason == "length"


def take_away(pair, pool):
    """Delete a pool's only pod; the next one takes some seconds to start."""
    (pod,) = pair.pods(pool)
    pair.kube.kubectl("delete", "pod", name_of(pod), "-n", pair.namespace, "--wait=false")


def says_that_a_pool_is_missing(pair):
    pair.wait_for("Available", "False", "PoolUnavailable", SOON)
    pair.wait_for("Ready", "False", seconds=SOON)


def ask(deployment):
    client = openai.OpenAI(base_url=f"{deployment.address}/v1", api_key="none", max_retries=0)
    with client:
        return client.completions.create(
            model=MODEL, prompt=" hello", max_tokens=4, extra_body={"ignore_eos": True}
        )


def refusal(deployment):
    """What a client is told once nobody can answer."""
    try:
        return Not(ask(deployment))
    except openai.InternalServerError as error:
        return error if error.status_code == 503 else Not(error)


def test_gates_from_two_to_three_and_one_killed_under_load(kube, world):
    full = world["full"]
    (engine,) = full.pods()
    load = {"prompt_tokens": 100, "output_tokens": 120, "tries": 60, "pause_seconds": 1.0}
    with Streams(full.address, 4.0, **load) as clients:
        wait_for_more(clients, 10)
        full.patch({"gate": {"replicas": 3}})
        wait_until("three gates share the engine", lambda: shares(full) == [3.0] * 3, LATER)
        wait_for_more(clients, 15)
        calm = set(clients.lost())
        killed = next(gate for gate in full.gates() if requests_of(full, gate))
        pod_processes.send(killed, pod_processes.TIDEGATE, signal.SIGKILL)
        wait_for_more(clients, 15)

    assert all(fault.startswith("RateLimitError") for fault in calm), calm
    broken = clients.broken()
    assert broken, "the killed gate had streams"
    assert all(one.fault for one in broken), "and they broke so that clients could tell"
    assert clients.unserved() == set(), "who asked again was served"
    held = engine_faults.pool(kube, engine)
    assert (held["shortages"], held["preemptions"]) == (0, 0), held
    assert held["peakBlocks"] <= HEADROOM * held["blocks"], held
    wait_until(
        "no gate holds anything for anybody",
        lambda: not (tokens := gates.reserved(full)) or Not(tokens),
        SOON,
    )
    assert engine_faults.pool(kube, engine)["open"] == 0


def wait_for_more(clients, count):
    """Wait until so many more clients have what they asked for."""

    def whole():
        return sum(one.is_whole for one in clients.done)

    wanted = whole() + count
    wait_until(f"{count} more are served", lambda: whole() >= wanted or Not(whole()), LATER)


def shares(deployment):
    """The number of gates, as each of them has it."""
    pages = (gates.text(deployment, gate, "/metrics") for gate in deployment.gates())
    return [metrics.parse(page).value("tidegate_gate_gates") for page in pages]


def requests_of(deployment, gate):
    """Requests that a gate has on engines now."""
    return sum(view["requests"] for view in gates.document(deployment, gate, "/podz")["pods"])
