"""Restarts of engines are counted once, each under why the engine ended."""

import pytest
from prometheus_client import CollectorRegistry

from tidegate.api.reasons import Reason
from tidegate.core import causes
from tidegate.core.causes import Cause
from tidegate.flow.ports import Ref
from tidegate.shell.restart_metrics import RestartMetrics

REF = Ref("chat", "qwen")


def pod(restarts, uid="u1", ended="Error", ready=False):
    last = {"terminated": {"exitCode": 1, "reason": ended, "containerID": f"c{restarts}"}}
    status = {"name": "engine", "restartCount": restarts, "ready": ready, "lastState": last}
    labels = {"tidegate.io/pool": "decode", "tidegate.io/revision": "r1"}
    metadata = {"name": f"pod-{uid}", "uid": uid, "labels": labels}
    return {"metadata": metadata, "status": {"containerStatuses": [status]}}


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def metrics(registry):
    return RestartMetrics(registry)


def counted(registry):
    return {
        (sample.labels["revision"], sample.labels["cause"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "tidegate_engine_restarts_total"
    }


def test_restarts_before_the_operators_start_are_not_counted(metrics, registry):
    metrics.tell(REF, [pod(5)], {})
    assert counted(registry) == {}


def test_a_new_restart_counts_under_the_cause_that_its_log_told(metrics, registry):
    metrics.tell(REF, [pod(5)], {})
    ended = pod(6)
    known = {causes.log_key(ended): Cause(Reason.CUDA_OOM_WHILE_SERVING, "out", "pod-u1")}

    metrics.tell(REF, [ended], known)
    metrics.tell(REF, [ended], known)

    assert counted(registry) == {("r1", "CUDAOutOfMemoryWhileServing"): 1}


def test_restarts_of_a_pod_that_came_later_count_from_its_first(metrics, registry):
    metrics.tell(REF, [], {})
    metrics.tell(REF, [pod(2, ended="OOMKilled")], {})

    assert counted(registry) == {("r1", "OutOfMemoryKilled"): 2}


@pytest.mark.parametrize(
    ("ended", "cause"), [("OOMKilled", "OutOfMemoryKilled"), ("Error", "EngineCrashed")]
)
def test_an_engine_that_serves_again_is_counted_by_how_it_ended(metrics, registry, ended, cause):
    metrics.tell(REF, [], {})
    again = pod(1, ended=ended, ready=True)
    again["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    metrics.tell(REF, [again], {})

    assert counted(registry) == {("r1", cause): 1}


def test_a_deployment_that_is_gone_shows_no_more(metrics, registry):
    metrics.tell(REF, [], {})
    metrics.tell(REF, [pod(1)], {})
    metrics.forget(REF)
    metrics.forget(Ref("chat", "never-seen"))

    assert counted(registry) == {}
