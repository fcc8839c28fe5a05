"""The operator's metrics follow the status of each deployment."""

from prometheus_client import generate_latest

from tidegate.flow.ports import Ref
from tidegate.shell.deployment_metrics import DeploymentMetrics
from tidegate.shell.telemetry import Metrics

REF = Ref("chat", "qwen")


def entry(node_class, **measured):
    told = {"measured": {"kvTokens": 90, "driftPercent": -10.0, **measured}} if measured else {}
    return {"pool": "decode", "nodeClass": node_class, **told}


def lines(metrics):
    text = generate_latest(metrics.registry).decode()
    names = ("tidegate_budget_drift_ratio{", "tidegate_measured_kv_tokens{", "tidegate_deployment")
    return {line for line in text.splitlines() if line.startswith(names)}


def test_each_slice_that_was_measured_shows_and_what_is_gone_shows_no_more():
    metrics = Metrics()
    shown = DeploymentMetrics(metrics)
    ready = [{"type": "Ready", "status": "True"}]
    plan = [entry("h100", kvTokens=90), entry("a100", kvTokens=80), entry("l4")]

    shown.tell(REF, {"conditions": ready, "kvTokens": 7, "plan": plan})
    h100, a100 = (
        f'{{llmdeployment="qwen",namespace="chat",node_class="{card}",pool="decode"}}'
        for card in ("h100", "a100")
    )
    assert lines(metrics) == {
        f"tidegate_budget_drift_ratio{h100} -0.1",
        f"tidegate_budget_drift_ratio{a100} -0.1",
        f"tidegate_measured_kv_tokens{h100} 90.0",
        f"tidegate_measured_kv_tokens{a100} 80.0",
        'tidegate_deployment_ready{llmdeployment="qwen",namespace="chat"} 1.0',
        'tidegate_deployment_rendering_waits{llmdeployment="qwen",namespace="chat"} 0.0',
        'tidegate_deployment_kv_tokens{llmdeployment="qwen",namespace="chat"} 7.0',
    }

    shown.tell(REF, {"plan": plan[:1]})
    assert not any("a100" in line for line in lines(metrics))

    shown.forget(REF)
    assert lines(metrics) == set()


def test_a_newer_rendering_that_waits_shows_until_it_is_taken_along():
    metrics = Metrics()
    shown = DeploymentMetrics(metrics)
    told = []
    for status in ("Unknown", "False", "True"):
        shown.tell(REF, {"conditions": [{"type": "RenderingCurrent", "status": status}]})
        told += [line for line in lines(metrics) if "rendering_waits" in line]
    assert [line.rpartition(" ")[2] for line in told] == ["0.0", "1.0", "0.0"]


def test_a_deployment_that_was_never_shown_can_be_forgotten():
    metrics = Metrics()
    DeploymentMetrics(metrics).forget(REF)
    assert lines(metrics) == set()
