"""Why a pod does not serve, as Kubernetes and the engine tell it."""

from datetime import timedelta

import pytest

from tidegate.api.reasons import Reason
from tidegate.core import causes
from tidegate.core.causes import Cause

SHUTDOWN = "[shutdown] API server: shutdown triggered"
STARTED = "INFO:     Application startup complete."
KV_TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (2048), (0.25 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (0.11 GiB). Based on the "
    "available memory, the estimated maximum model length is 928. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)


def a_pod(state=None, last=None, restarts=0, ready=False, **status):
    container = {
        "name": "engine",
        "ready": ready,
        "restartCount": restarts,
        "state": state or {},
        "lastState": last or {},
    }
    return {
        "metadata": {"name": "chat-unified-abc", "namespace": "default", "uid": "u1"},
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "engine",
                    "image": "vllm:v1",
                    "resources": {"limits": {"memory": "3Gi"}},
                    "startupProbe": {"periodSeconds": 5, "failureThreshold": 480},
                }
            ],
        },
        "status": {"phase": "Running", "containerStatuses": [container], **status},
    }


def ended(code, reason="Error", seconds=60, container="c1"):
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "containerID": container,
            "startedAt": "2026-01-01T10:00:00Z",
            "finishedAt": f"2026-01-01T{timedelta(seconds=seconds + 36000)}Z",
        }
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


LOOPING = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")


@pytest.mark.parametrize(
    ("state", "last", "log", "reason", "parts"),
    [
        (
            waiting("ImagePullBackOff", "Back-off pulling image: not found"), None, "",
            Reason.IMAGE_PULL_FAILED, ["vllm:v1", "not found", "spec.engine.image"],
        ),
        (waiting("ErrImagePull"), None, "", Reason.IMAGE_PULL_FAILED, ["ErrImagePull"]),
        (waiting("InvalidImageName"), None, "", Reason.IMAGE_PULL_FAILED, ["InvalidImageName"]),
        (
            waiting("CreateContainerConfigError", 'secret "hf" not found'), None, "",
            Reason.CONTAINER_CONFIG_INVALID, ['secret "hf" not found'],
        ),
        (LOOPING, ended(1), KV_TOO_SMALL, Reason.KV_CACHE_TOO_SMALL, ["928", "exit code 1"]),
        (
            LOOPING, ended(2), "vllm: error: unrecognized arguments: --foo-bar 1",
            Reason.ENGINE_FLAG_UNKNOWN, ["--foo-bar", "exit code 2", "4 restarts"],
        ),
        (
            LOOPING, ended(137, "OOMKilled"), STARTED,
            Reason.OUT_OF_MEMORY_KILLED, ["3Gi", "resources.limits.memory"],
        ),
        ({"running": {}}, ended(0), STARTED, Reason.ENGINE_CRASHED, ["exit code 0"]),
        (
            {"running": {}}, ended(0), f"{STARTED}\n{SHUTDOWN}",
            Reason.LIVENESS_KILLED, ["/health", "60 s"],
        ),
        (
            {"running": {}}, ended(0, seconds=2410), SHUTDOWN,
            Reason.STARTUP_TIMED_OUT, ["2400 s", "2410 s"],
        ),
        (
            {"running": {}}, ended(143, seconds=2405), "",
            Reason.STARTUP_TIMED_OUT, ["2400 s", "exit code 143"],
        ),
        (
            {"running": {}}, ended(137, seconds=9000), STARTED,
            Reason.LIVENESS_KILLED, ["hung", "9000 s"],
        ),
        (LOOPING, ended(7), "odd\nvery odd", Reason.CRASH_LOOPING, ["odd / very odd", "code 7"]),
        (LOOPING, ended(7), "", Reason.CRASH_LOOPING, ["its log is empty"]),
        (ended(1), None, KV_TOO_SMALL, Reason.KV_CACHE_TOO_SMALL, ["928"]),
    ],
)  # fmt: skip
def test_an_engine_that_does_not_serve_is_explained(state, last, log, reason, parts):
    cause = causes.of_pod(a_pod(state, last, restarts=4), log)
    assert cause is not None
    assert cause.reason == reason, cause
    for part in ["pod chat-unified-abc", *parts]:
        assert part in cause.message


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's "
            "node affinity/selector. preemption: 0/2 nodes are available: 1 No preemption victims "
            "found for incoming pod, 1 Preemption is not helpful for scheduling.",
            "of 2 nodes 1 have too little nvidia.com/gpu free, 1 are not of the class",
        ),
        (
            "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: present}, 2 "
            "Insufficient cpu, 2 Insufficient memory. no new claims to deallocate, preemption: "
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            "of 3 nodes 1 have the taint gpu, 2 have too little cpu free, 2 have too little memory",
        ),
        ("no nodes available to schedule pods", "no nodes available to schedule pods"),
        ("", "the scheduler gives no reason"),
    ],
)
def test_a_pod_without_a_node_is_explained_by_the_schedulers_numbers(message, said):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pod = a_pod(phase="Pending", conditions=[{**condition, "message": message}])
    del pod["status"]["containerStatuses"], pod["spec"]["nodeName"]
    cause = causes.of_pod(pod)
    assert cause is not None
    assert cause.reason == Reason.UNSCHEDULABLE
    assert said in cause.message


def test_an_evicted_pod_says_from_where_and_why():
    pod = a_pod(phase="Failed", reason="Evicted", message="The node was low on memory.")
    cause = causes.of_pod(pod)
    assert cause is not None
    assert "Evicted from node n1" in cause.message
    assert "low on memory" in cause.message


def test_a_ready_container_on_a_silent_node_is_not_called_ready():
    cause = causes.of_pod(a_pod({"running": {}}, ready=True, conditions=[]))
    assert cause is not None
    assert "node n1 does not answer" in cause.message


@pytest.mark.parametrize(
    "pod",
    [
        a_pod({"running": {}}),
        a_pod(waiting("ContainerCreating")),
        a_pod(waiting("PodInitializing")),
        a_pod({"running": {}}, ready=True, conditions=[{"type": "Ready", "status": "True"}]),
        {"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": {}},
        {"metadata": {"name": "p", "uid": "u"}},
    ],
)
def test_a_pod_that_starts_or_serves_has_no_cause_and_needs_no_log(pod):
    assert causes.of_pod(pod) is None
    assert causes.needs_log(pod) is None


def test_a_pod_that_leaves_is_not_explained():
    pod = a_pod(LOOPING, ended(1))
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert causes.of_pod(pod, KV_TOO_SMALL) is None
    assert causes.needs_log(pod) is None


@pytest.mark.parametrize(
    ("state", "last", "wanted"),
    [
        (ended(1), None, "current"),
        (LOOPING, ended(1), "previous"),
        ({"running": {}}, ended(0), "previous"),
        (waiting("ImagePullBackOff"), None, None),
    ],
)
def test_a_log_is_wanted_only_of_a_container_that_ended(state, last, wanted):
    assert causes.needs_log(a_pod(state, last, restarts=1)) == wanted


def test_one_end_is_one_log_whether_it_is_the_current_or_the_previous_one():
    just_ended = a_pod(ended(1, container="c9"), restarts=3)
    restarted = a_pod(LOOPING, ended(1, container="c9"), restarts=4)
    ended_again = a_pod(LOOPING, ended(1, container="c10"), restarts=4)
    assert causes.log_key(just_ended) == causes.log_key(restarted)
    assert causes.log_key(ended_again) != causes.log_key(restarted)


def test_the_cause_that_cannot_pass_by_itself_is_shown():
    waits = Cause(Reason.UNSCHEDULABLE, "waits", "a")
    looping = Cause(Reason.CRASH_LOOPING, "loops", "a")
    small = Cause(Reason.KV_CACHE_TOO_SMALL, "small", "z")
    smaller = Cause(Reason.KV_CACHE_TOO_SMALL, "smaller", "b")
    assert causes.worst([waits, looping, small, smaller]) == smaller
    assert causes.worst([]) is None


def test_pods_that_a_quota_refuses_are_explained_by_the_deployment():
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: gpus"}
    found = {"metadata": {"name": "chat-unified"}, "status": {"conditions": [condition]}}
    cause = causes.of_deployment(found)
    assert cause is not None
    assert "exceeded quota: gpus" in cause.message
    assert causes.of_deployment({"metadata": {"name": "x"}}) is None


def test_a_message_is_never_longer_than_a_condition_takes():
    cause = causes.of_pod(a_pod(LOOPING, ended(7)), "x" * 100_000)
    assert cause is not None
    assert len(cause.message) <= 4096
