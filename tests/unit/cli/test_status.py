"""What several gates say of one pod is put together, beside what the loop holds."""

import json
import re
from datetime import UTC, datetime, timedelta

from tests.unit.cli import gate_pages

from tidegate.cli import status
from tidegate.cli.cluster import status_sum
from tidegate.cli.cluster.status_read import Found
from tidegate.cli.cluster.status_sum import GateAnswer


def pod(name="a", **changes):
    return {
        "name": name,
        "pool": "unified",
        "revision": "aaaa",
        "reservedTokens": 100,
        "capacityTokens": 400,
        "requests": 2,
        "prefillBacklogTokens": 10,
        "scrapeAgeSeconds": 0.5,
        "terminating": False,
        "ejected": False,
        **changes,
    }


def gate(*pods, name="g", **more):
    return GateAnswer(
        name, {"queued": 3, "shedPercent": 0, "shiftPercent": 0, "pods": pods, **more}
    )


def test_each_gate_has_a_part_of_a_pod_and_the_parts_add_up():
    [total] = status_sum.pods([gate(pod()), gate(pod(reservedTokens=50, requests=1))])

    assert (total.reserved_tokens, total.capacity_tokens, total.requests) == (150, 800, 3)
    assert total.prefill_backlog_tokens == 20


def test_the_last_scrape_is_the_latest_of_any_gate_and_none_is_not_zero():
    def age(*ages):
        [total] = status_sum.pods([gate(pod(scrapeAgeSeconds=age)) for age in ages])
        return total.scrape_age_seconds

    assert age(0.5, 0.1) == 0.1
    assert age(None, 0.0) == 0.0
    assert age(None, None) is None


def test_a_state_that_one_gate_sees_is_shown():
    [total] = status_sum.pods([gate(pod()), gate(pod(ejected=True, terminating=True))])
    assert total.document()["states"] == ["ejected", "terminating"]


def test_gates_that_do_not_answer_add_nothing():
    answers = [gate(pod()), GateAnswer("dead", None, "no answer")]

    assert status_sum.queued(answers) == 3
    assert len(status_sum.pods(answers)) == 1
    assert status_sum.pods([GateAnswer("dead", None)]) == []


def test_the_share_shown_is_the_largest_that_a_gate_applies():
    answers = [gate(shedPercent=0), gate(shedPercent=12.5)]
    assert status_sum.largest_share(answers, "shedPercent") == 12.5
    assert status_sum.largest_share([], "shedPercent") == 0


def test_the_engines_own_kv_usage_is_a_mean_of_the_gates_and_never_a_sum():
    def usage(*told):
        [total] = status_sum.pods([gate(pod(kvUsage=each)) for each in told])
        return total.kv_usage

    assert usage(0.6, 0.8) == 0.7
    assert usage(None, 0.5) == 0.5
    assert usage(None, None) is None


def test_kv_usage_stands_beside_what_is_reserved_and_a_dash_for_none(fake_cluster, tidegate):
    pods = (pod("qwen-a", kvUsage=0.81), pod("qwen-b"))
    fake_cluster.gate("qwen-gate-1", gate_pages.podz(*pods), gate_pages.counting())
    code, out, _ = tidegate("status", "qwen")
    header, first, second = [line.split() for line in out.splitlines()[-3:]]

    assert code == 0
    assert header[5:7] == ["USED", "KV"]
    assert (first[5:7], second[5:7]) == (["25%", "81%"], ["25%", "-"])


STARTING = "unified: 0 of 2 pods are ready."


def after_a_drain(fake_cluster, minutes=4):
    """Have a deployment whose only gate knows of no pod, and an engine's pod that starts."""
    conditions = [
        {"type": "Ready", "status": "False", "reason": "PodsStarting", "message": STARTING}
    ]
    fake_cluster.deployment(status={"observedGeneration": 1, "conditions": conditions})
    nothing = {**gate_pages.podz(), "pods": []}
    fake_cluster.gate("qwen-gate-1", nothing, gate_pages.counting())
    labels = {
        "tidegate.io/deployment": "qwen",
        "tidegate.io/pool": "unified",
        "tidegate.io/revision": "aaaa",
    }
    made = fake_cluster.pod("qwen-unified-a-2", labels)
    created = datetime.now(UTC) - timedelta(minutes=minutes, seconds=2)
    made["metadata"]["creationTimestamp"] = created.strftime("%Y-%m-%dT%H:%M:%SZ")
    return made


def test_after_a_drain_the_pod_that_starts_is_shown_and_why_it_is_not_ready(fake_cluster, tidegate):
    after_a_drain(fake_cluster)
    code, out, errors = tidegate("status", "qwen")

    assert (code, errors) == (0, "")
    [row] = [line for line in out.splitlines() if line.startswith("qwen-unified-a-2")]
    assert row.split()[1:4] == ["unified", "aaaa", "-"]
    assert re.search(r"not ready, 4m( \d+s)? old$", row)
    assert f"not ready: {STARTING}" in out


def test_a_pod_that_cannot_start_is_shown_with_its_cause(fake_cluster, tidegate):
    made = after_a_drain(fake_cluster)
    waiting = {"reason": "ImagePullBackOff", "message": "no such tag"}
    states = [{"name": "engine", "ready": False, "state": {"waiting": waiting}}]
    made["status"] = {"phase": "Pending", "containerStatuses": states}
    out = tidegate("status", "qwen")[1]

    assert "old: ImagePullFailed" in out
    assert "pod qwen-unified-a-2: the image" in out
    [told] = json.loads(tidegate("status", "qwen", "-o", "json")[1])["podsNoGateTellsOf"]
    assert (told["name"], told["reason"]) == ("qwen-unified-a-2", "ImagePullFailed")


def test_pods_are_there_though_no_gate_answers(fake_cluster, tidegate):
    made = after_a_drain(fake_cluster)
    made["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    fake_cluster.refuse[("GET", "/api/v1/namespaces/chat/pods/qwen-gate-1:")] = (503, "away")
    code, out, _ = tidegate("status", "qwen")

    assert code == 1
    assert "ready, no gate tells of it" in out


def test_a_pod_that_a_gate_tells_of_is_shown_once(fake_cluster, tidegate):
    after_a_drain(fake_cluster)
    told = gate_pages.podz(pod("qwen-unified-a-2"))
    fake_cluster.gate("qwen-gate-1", told, gate_pages.counting())

    assert tidegate("status", "qwen")[1].count("qwen-unified-a-2") == 1


def test_a_resource_that_has_no_status_yet_is_shown_as_unknown():
    resource = {"metadata": {"name": "qwen", "namespace": "chat"}}
    told = status.document(Found(resource, [gate(pod("b"), pod("a"))]))

    assert (told["ready"], told["address"]) == ("Unknown", None)
    assert [entry["name"] for entry in told["pods"]] == ["a", "b"]


OVERLOAD = {
    "state": "Override",
    "reason": "OverrideHeld",
    "message": "30 % are shed",
    "because": ["kvUsage is 0.93"],
    "override": {
        "action": "Shed",
        "until": "2999-01-01T00:00:00Z",
        "reason": "INC-1",
        "setBy": "r",
    },
    "reaction": {"floor": "9s", "message": "A share holds after 9s at worst."},
}


def test_what_the_loop_or_a_lever_holds_is_told_with_its_reasons(fake_cluster, tidegate):
    fake_cluster.deployment(status={"observedGeneration": 1, "overload": OVERLOAD})
    code, out, errors = tidegate("status", "qwen")

    assert (code, errors) == (0, "")
    for text in (
        "overload: Override, OverrideHeld: 30 % are shed",
        "kvUsage is 0.93",
        "lever: Shed until 2999-01-01T00:00:00Z, set by r (INC-1); kubectl tidegate open lets go",
        "A share holds after 9s at worst.",
    ):
        assert text in out


def test_as_json_the_loops_state_is_as_it_is_stored(fake_cluster, tidegate):
    fake_cluster.deployment(status={"observedGeneration": 1, "overload": OVERLOAD})
    assert json.loads(tidegate("status", "qwen", "-o", "json")[1])["overload"] == OVERLOAD


def test_a_canary_is_shown_beside_the_stable_revision_with_what_its_looks_said():
    rollout = {
        "summary": "1/3 5%",
        "phase": "Canary",
        "stable": "aaaa",
        "canary": "bbbb",
        "because": "ttftP95: 12 of 200 requests",
        "verdicts": {"passed": 0, "inconclusive": 3, "errors": 1},
    }
    assert status._rollout(rollout) == [
        "rollout: 1/3 5%, revision bbbb beside stable aaaa: ttftP95: 12 of 200 requests",
        "looks at this step: 3 inconclusive, 1 errors",
    ]
    compared = status._rollout({**rollout, "baseline": "aaaa-baseline-bbbb"})
    assert compared[0] == (
        "rollout: 1/3 5%, revision bbbb beside stable aaaa, compared with its fresh pods, baseline "
        "aaaa-baseline-bbbb: ttftP95: 12 of 200 requests"
    )
    assert status._rollout({"phase": "Settled", "summary": "Settled", "stable": "aaaa"}) == []
