"""What several gates say of one pod is put together, beside what the loop holds."""

import json

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
