"""`tidegate drain` says what is on a pod, evicts it, and tells how its requests end."""

import itertools
import json

import pytest
from tests.unit.cli import gate_pages
from tests.unit.cli.cluster import NAMESPACE

NAME = "qwen-unified-a-1"
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods/{NAME}"
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
def pods(fake_cluster):
    """Two pods of the engine; the first goes a moment after it was evicted."""
    labels = {"tidegate.io/deployment": "qwen", "tidegate.io/pool": "unified"}
    fake_cluster.pod(NAME, labels)
    fake_cluster.pod("qwen-unified-a-2", labels)
    two = [gate_pages.pod(), gate_pages.pod("qwen-unified-a-2", reservedTokens=1000)]
    fake_cluster.gate("qwen-gate-1", gate_pages.podz(*two), gate_pages.counting())
    evicted, looks = [], itertools.count()
    original = fake_cluster.answer

    def answer(call):
        if call.path == f"{PATH}/eviction":
            evicted.append(call)
            return 201, {"status": "Success"}
        if call.path == PATH and evicted and "dryRun" not in evicted[0].query and next(looks):
            fake_cluster.objects.pop(PATH, None)
        return original(call)

    fake_cluster.answer = answer
    fake_cluster.evicted = evicted
    return fake_cluster


def test_it_tells_what_is_on_it_and_how_that_ended(tidegate, pods):
    code, out, errors = tidegate("drain", "qwen", NAME, "--yes")
    [eviction] = pods.evicted

    assert (code, errors) == (0, "")
    for text in (
        f"chat/qwen: evict {NAME} (pool unified, on n1).",
        "Requests on it now: 7, with 3,000 of 4,000 KV tokens reserved.",
        "1 other pod of pool unified has 3,000 KV tokens to give.",
        "What runs has 30 s to end.",
        "Meanwhile ended, on all pods: answered",
        "finished 100, refused 20",
    ):
        assert text in out
    assert eviction.body["deleteOptions"] == {"preconditions": {"uid": f"uid-{NAME}"}}


def test_as_json_it_is_for_programs(tidegate, pods):
    _, out, _ = tidegate("drain", "qwen", NAME, "--yes", "-o", "json")
    told = json.loads(out)

    assert (told["gone"], told["requests"], told["reservedTokens"]) == (True, 7, 3000)
    assert told["endedMeanwhile"]["finished"] == 100


def test_a_dry_run_asks_the_api_server_and_waits_for_nothing(tidegate, pods):
    code, out, _ = tidegate("drain", "qwen", NAME, "--dry-run")

    assert code == 0
    assert "Not evicted" in out
    assert pods.evicted[0].query == {"dryRun": "All"}
    assert PATH in pods.objects


def test_without_a_terminal_and_yes_nothing_leaves(tidegate, pods):
    assert tidegate("drain", "qwen", NAME)[0] == 1
    assert pods.evicted == []


def test_the_last_pod_of_a_pool_is_told_to_be_so(tidegate, pods):
    pods.gate("qwen-gate-1", gate_pages.podz(), gate_pages.counting())
    _, out, _ = tidegate("drain", "qwen", NAME, "--dry-run")

    assert "No other pod of pool unified serves" in out


def test_a_disruption_budget_is_kept_and_named(tidegate, pods):
    pods.answer = type(pods).answer.__get__(pods)
    pods.refuse[("POST", f"{PATH}/eviction")] = (429, {"message": BUDGET})
    code, _, errors = tidegate("drain", "qwen", NAME, "--yes")

    assert code == 1
    assert errors.startswith(f"tidegate: {NAME} stays: {BUDGET} Wait until every pod of pool")
    assert "spec.pools.unified.replicas" in errors


def test_a_gate_that_is_kept_is_told_by_the_field_that_adds_one(tidegate, pods):
    path = PATH.replace(NAME, "qwen-gate-1")
    pods.refuse[("POST", f"{path}/eviction")] = (429, {"message": BUDGET})
    code, _, errors = tidegate("drain", "qwen", "qwen-gate-1", "--yes")

    assert code == 1
    assert "Wait until every gate is ready, or add one (spec.gate.replicas)" in errors


def test_a_pod_that_does_not_go_in_time_is_a_no_with_what_is_left(tidegate, pods):
    pods.answer = type(pods).answer.__get__(pods)
    pods.objects[f"{PATH}/eviction"] = {"status": "Success"}
    code, _, errors = tidegate("drain", "qwen", NAME, "--yes", "--timeout", "2s")

    assert code == 1
    assert f"{NAME} is still there after 2 s, with 7 requests" in errors


def test_a_pod_of_another_deployment_is_refused_with_those_there_are(tidegate, pods):
    code, _, errors = tidegate("drain", "qwen", "stranger", "--yes")

    assert code == 1
    assert f"qwen has no pod stranger; it has qwen-gate-1, {NAME}, qwen-unified-a-2" in errors


def test_a_failing_look_is_tried_again_until_the_pod_is_gone(tidegate, pods):
    original, left = pods.answer, iter(range(3))

    def answer(call):
        if call.path == PATH and pods.evicted and next(left, None) is not None:
            return 503, {"message": "apiserver not ready"}
        return original(call)

    pods.answer = answer
    code, out, errors = tidegate("drain", "qwen", NAME, "--yes")

    assert (code, errors) == (0, "")
    assert "Gone after" in out


def test_a_look_that_goes_on_failing_is_named_when_time_is_up(tidegate, pods):
    original = pods.answer

    def answer(call):
        if call.path == PATH and pods.evicted:
            return 503, {"message": "apiserver not ready"}
        return original(call)

    pods.answer = answer
    code, _, errors = tidegate("drain", "qwen", NAME, "--yes", "--timeout", "1s")

    assert code == 1
    assert "with 7 requests; the last look at it failed: apiserver not ready" in errors


def test_what_some_gates_tell_is_at_least_so_much(tidegate, pods):
    labels = {"app.kubernetes.io/component": "gate", "tidegate.io/deployment": "qwen"}
    pods.pod("qwen-gate-2", labels)
    _, out, errors = tidegate("drain", "qwen", NAME, "--dry-run", "-o", "json")

    assert "Requests on it now, by 1 of 2 gates: at least 7, with" in errors
    assert "1 other pod of pool unified has at least 3,000 KV tokens" in errors
    assert json.loads(out)["gates"] == {"total": 2, "answering": 1}


def test_what_the_api_server_warns_of_is_told(tidegate, pods):
    pods.warnings = ['299 - "take care"']
    _, out, errors = tidegate("drain", "qwen", NAME, "--dry-run", "-o", "json")

    assert "Warning: take care" in errors
    assert json.loads(out)["warnings"] == ["take care"]
