"""What the caches hold of deployments shows as metrics, and goes with them."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidegate.shell.cluster_metrics import ClusterMetrics


def deployment(name="qwen", **parts):
    return {"metadata": {"namespace": "chat", "name": name}, **parts}


def shown(deployments, *, leads=True, silences=None):
    registry = CollectorRegistry()
    registry.register(ClusterMetrics(lambda: deployments, lambda: silences or {}, lambda: leads))
    text = generate_latest(registry).decode()
    return {line for line in text.splitlines() if not line.startswith("#")}


STATUS = {
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "PoolUnavailable"},
        {"type": "BudgetDrift", "status": "Unknown", "reason": "NotMeasured"},
    ],
    "pools": [{"name": "decode", "desired": 3, "ready": 2}],
}
OF = 'llmdeployment="qwen",namespace="chat"'


def test_conditions_pods_and_objectives_show():
    slo = {"timeToFirstToken": "1500ms", "timePerOutputToken": "50ms"}

    assert shown([deployment(status=STATUS, spec={"slo": slo})]) == {
        f'tidegate_deployment_condition{{{OF},reason="PoolUnavailable",'
        'status="False",type="Ready"} 1.0',
        f'tidegate_deployment_condition{{{OF},reason="NotMeasured",'
        'status="Unknown",type="BudgetDrift"} 1.0',
        f'tidegate_pool_desired_pods{{{OF},pool="decode"}} 3.0',
        f'tidegate_pool_ready_pods{{{OF},pool="decode"}} 2.0',
        f'tidegate_slo_seconds{{{OF},objective="ttft"}} 1.5',
        f'tidegate_slo_seconds{{{OF},objective="tpot"}} 0.05',
    }


def test_a_lever_shows_when_it_lapses():
    lever = {"action": "Shed", "percent": 30, "until": "2026-11-30T04:00:00+02:00"}

    assert shown([deployment(spec={"overload": {"override": lever}})]) == {
        f'tidegate_override_until_timestamp_seconds{{action="Shed",{OF}}} 1.796004e+09'
    }


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"slo": {"timeToFirstToken": "soon"}},
        {"overload": {"enterAfter": "5s"}},
        {"overload": {"override": {"action": "Open", "until": "tomorrow"}}},
    ],
)
def test_what_is_not_known_is_absent(spec):
    assert shown([deployment(spec=spec), deployment("other", status={})]) == set()


def test_a_replica_that_does_not_lead_tells_of_its_watches_only():
    lines = shown([deployment(status=STATUS)], leads=False, silences={"pods": 7.0})

    assert lines == {'tidegate_watch_silence_seconds{resource="pods"} 7.0'}


def test_a_canary_shows_its_step_and_what_its_looks_said():
    rollout = {
        "phase": "Canary",
        "stable": "aaaa",
        "canary": "bbbb",
        "step": 1,
        "verdicts": {"passed": 2},
        "failed": [{"revision": "cccc"}],
    }
    canary = f'{OF},revision="bbbb"'

    assert shown([deployment(status={"rollout": rollout})]) == {
        f"tidegate_rollout_step{{{canary}}} 2.0",
        f'tidegate_rollout_looks{{{canary},verdict="passed"}} 2.0',
        f"tidegate_rollout_failed_revisions{{{OF}}} 1.0",
    }
    settled = {"phase": "Settled", "stable": "bbbb"}
    assert shown([deployment(status={"rollout": settled})]) == {
        f"tidegate_rollout_failed_revisions{{{OF}}} 0.0"
    }


@pytest.mark.parametrize(
    ("step", "ready", "share"),
    [(0, True, 0.25), (0, False, 0.0), (1, False, 0.25), (1, True, 0.5)],
)
def test_a_canary_shows_the_share_of_the_requests_that_it_has(step, ready, share):
    at = "2027-01-15T08:00:00Z"
    rollout = {
        "summary": "",
        "phase": "Canary",
        "stable": "aaaa",
        "canary": "bbbb",
        "step": step,
        "stepSince": at,
        **({"readySince": at} if ready else {}),
    }
    spec = {
        "model": {"id": "org/model"},
        "engine": {"image": "vllm/vllm-openai:v0.32.0"},
        "pools": {"unified": {"replicas": 2}},
        "rollout": {"steps": [{"weight": 25, "pause": "1m"}, {"weight": 50, "pause": "1m"}]},
    }
    told = f'tidegate_rollout_weight_ratio{{{OF},revision="bbbb"}} {share}'
    assert told in shown([deployment(spec=spec, status={"rollout": rollout})])
