"""Each way in which an engine fails is named in status, with its fix, and is left again.

All deployments are applied at once and corrected at once: their waits pass together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from e2e import llmd
from e2e.llmd import Llmd, env

FILE = Path(__file__).with_name("engine.yaml")
NAMED_SECONDS = 120.0
"""Until a cause shows: a start, an end, and the pass that reads the log, on a busy machine."""
RECOVERED_SECONDS = 150.0


@dataclass(frozen=True)
class Case:
    """A mistake in the spec, what status says of it, and what the user then corrects."""

    name: str
    change: Mapping[str, Any]
    reason: str
    fix: str
    correction: Mapping[str, Any] = field(default_factory=lambda: {"engine": {"env": []}})


def fails(name: str, reason: str, fix: str, **more: object) -> Case:
    """Return a case where the double fails by a cause of its own."""
    return Case(name, {"engine": {"env": env(DOUBLE_FAIL=name, **more)}}, reason, fix)


CASES = (
    fails("kv-too-small", "KVCacheTooSmall", "maxModelLen"),
    fails("no-kv-memory", "KVCacheTooSmall", "maxNumBatchedTokens"),
    fails("cuda-oom-load", "CUDAOutOfMemoryAtLoad", "tensorParallel"),
    fails("cuda-oom-capture", "CUDAOutOfMemoryAtCapture", "enforceEager"),
    fails("shm-too-small", "SharedMemoryTooSmall", "/dev/shm"),
    fails("oom-kill", "OutOfMemoryKilled", "resources.limits.memory", DOUBLE_FAIL_AFTER_SECONDS=1),
    fails(
        *("exit-zero", "EngineCrashed", "previous log"),
        DOUBLE_FAIL_AFTER_SECONDS=2,
        DOUBLE_DEATH_SECONDS=0,
    ),
    Case(
        name="unknown-flag",
        change={"engine": {"version": "0.33.0", "extraArgs": ["--watchdog-config={}"]}},
        reason="EngineFlagUnknown",
        fix="engine.version",
        correction={"engine": {"version": "0.32.0", "extraArgs": []}},
    ),
    Case(
        name="model-not-found",
        change={"model": {"id": "/models/absent"}},
        reason="ModelNotFound",
        fix="spec.model.id",
        correction={"model": {"id": "/models/tiny"}},
    ),
    Case(
        name="revision-not-found",
        change={
            "model": {"revision": "no-such-branch"},
            "engine": {"env": env(DOUBLE_FAIL="revision-not-found")},
        },
        reason="ModelRevisionNotFound",
        fix="spec.model.revision",
        correction={"model": {"revision": None}, "engine": {"env": []}},
    ),
    fails("gated-model", "ModelAccessDenied", "tokenSecretRef"),
    Case(
        name="image-absent",
        change={"engine": {"image": "localhost/tidegate/no-such-engine:v0.32.0"}},
        reason="ImagePullFailed",
        fix="spec.engine.image",
        correction={"engine": {"image": "localhost/tidegate/engine-double:dev"}},
    ),
    Case(
        name="too-much-memory",
        change={
            "pools": {"unified": {"resources": {"requests": {"memory": "9Ti"}, "limits": None}}}
        },
        reason="Unschedulable",
        fix="memory",
        correction={"pools": {"unified": {"resources": {"requests": {"memory": "64Mi"}}}}},
    ),
)
IDS = [case.name for case in CASES]


@pytest.fixture(scope="module")
def failing(many_gpus, kube, shared_namespace) -> dict[str, Llmd]:
    """A deployment with each mistake, applied one after the other without waiting."""
    return {
        case.name: llmd.apply(kube, shared_namespace, FILE, case.name, case.change)
        for case in CASES
    }


@pytest.fixture(scope="module")
def corrected(failing) -> dict[str, Llmd]:
    """The same, after the user has corrected what the message names."""
    for case in CASES:
        failing[case.name].patch(case.correction)
    return failing


@pytest.fixture(scope="module")
def busy_gpu(many_gpus, kube, shared_namespace) -> Llmd:
    """A deployment whose first engine finds a GPU that another process still holds."""
    told = env(DOUBLE_FAIL="gpu-busy", DOUBLE_FAIL_TIMES=2)
    return llmd.apply(kube, shared_namespace, FILE, "gpu-busy", {"engine": {"env": told}})


def test_a_gpu_that_is_still_held_is_named_and_passes_by_itself(busy_gpu):
    condition = busy_gpu.wait_for("Ready", "False", "GPUStillHeld", NAMED_SECONDS)
    assert "process" in condition["message"]

    uids = busy_gpu.uids()
    busy_gpu.wait_ready(RECOVERED_SECONDS)

    assert busy_gpu.uids() == uids, "the container was restarted, the pod was not replaced"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_failure_is_named_with_its_fix(failing, case):
    condition = failing[case.name].wait_for("Ready", "False", case.reason, NAMED_SECONDS)

    assert case.fix in condition["message"]
    pod = failing[case.name].pods()[0]["metadata"]["name"]
    assert pod in condition["message"], "the message names the pod"
    assert failing[case.name].status["reason"] == case.reason, "kubectl get llmd shows the reason"


def test_a_failure_is_told_in_an_event(failing):
    failing["cuda-oom-load"].wait_for("Ready", "False", "CUDAOutOfMemoryAtLoad", NAMED_SECONDS)

    events = failing["cuda-oom-load"].events()

    assert ("Warning", "CUDAOutOfMemoryAtLoad") in {(e["type"], e["reason"]) for e in events}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_it_recovers_when_the_spec_is_corrected(corrected, case):
    status = corrected[case.name].wait_ready(RECOVERED_SECONDS)

    assert status["pods"] == "1/1"
