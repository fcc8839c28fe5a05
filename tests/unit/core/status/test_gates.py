"""What the gates' state means for what users and kstatus read."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.rollout.slices import State
from tidegate.core.status import GatesSeen
from tidegate.core.status.gates import why_not_ready

from .test_status import OOM, of, seen, told

GOOD = GatesSeen("http://qwen.chat.svc", desired=2, ready=2, serves=True)


def but(**changes):
    return GatesSeen(**{**vars(GOOD), **changes})


REFUSING = but(refusal="slices[0].kvBlocks: must be at least 1")
ABSENT = but(ready=0, serves=False, silence="pod qwen-gate-1: no node can take it")
BEHIND = but(serves=False, silence="pod qwen-gate-1 has generation 2, the spec is generation 3")
UNTRIED = but(untried=("abcd0123",), is_proven=False)
BROKEN = but(incompatible=("revision abcd0123, from p to d: status 500",), is_proven=False)


@pytest.mark.parametrize(
    ("gates", "ready", "reconciling", "stalled", "available", "reason"),
    [
        (None, "True", "False", "False", "True", Reason.READY),
        (GOOD, "True", "False", "False", "True", Reason.READY),
        (ABSENT, "False", "True", "False", "False", Reason.GATE_UNAVAILABLE),
        (BEHIND, "False", "True", "False", "True", Reason.GATE_UNAVAILABLE),
        (REFUSING, "False", "False", "True", "True", Reason.GATE_CONFIG_REFUSED),
        (UNTRIED, "False", "True", "False", "False", Reason.PAIR_UNTRIED),
        (BROKEN, "False", "False", "True", "False", Reason.PAIR_INCOMPATIBLE),
        (but(incompatible=BROKEN.incompatible), "False", "False", "True", "True",
         Reason.PAIR_INCOMPATIBLE),
    ],
)  # fmt: skip
def test_it_is_ready_and_available_when_clients_are_served(
    gates, ready, reconciling, stalled, available, reason
):
    document = told(seen(State.SETTLED, ready=2, gates=gates))

    kinds = ("Ready", "Reconciling", "Stalled", "Available")
    assert [of(document, kind).status for kind in kinds] == [ready, reconciling, stalled, available]
    assert of(document, "Ready").reason == reason
    if gates is not None and ready == "False":
        message = of(document, "Ready").message
        told_why = gates.refusal or gates.silence or (*gates.incompatible, *gates.untried)[0]
        assert told_why in message


def test_the_rollout_and_its_causes_come_before_the_gates():
    rolling = told(seen(State.ROLLING, gates=ABSENT))
    failing = told(seen(State.STARTING, gates=ABSENT, cause=OOM))

    assert of(rolling, "Ready").reason == Reason.ROLLING_OUT
    assert of(failing, "Ready").reason == Reason.CUDA_OOM_AT_LOAD


def test_no_engine_is_no_outage_of_the_gate():
    document = told(seen(State.STARTING, ready=0, gates=ABSENT))

    assert of(document, "Available").reason == Reason.POOL_UNAVAILABLE


def test_gates_that_never_come_stall_the_rollout_after_its_deadline():
    first = told(seen(State.SETTLED, ready=2, gates=ABSENT, progress_deadline_seconds=60))
    late = told(
        seen(State.SETTLED, ready=2, gates=ABSENT, progress_deadline_seconds=60),
        first,
        1_800_000_061.0,
    )

    assert of(late, "Stalled").reason == Reason.PROGRESS_DEADLINE_EXCEEDED
    assert "no node can take it" in of(late, "Stalled").message


def test_the_status_says_where_clients_connect_and_how_many_gates_there_are():
    document = told(seen(State.SETTLED, ready=2, gates=but(ready=1)))

    assert document.address == "http://qwen.chat.svc"
    assert (document.gate.desired, document.gate.ready) == (2, 1)
    assert told(seen(State.SETTLED)).address is None


def pod(name, **status):
    return {"metadata": {"name": name, "uid": name}, "spec": {}, "status": status}


def waiting(reason, message=""):
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "gate", "state": state}]}


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ([], ""),
        ([pod("a", **waiting("ContainerCreating"))], ""),
        ([pod("b", **waiting("ImagePullBackOff", "no such tag")), pod("a")],
         "pod b: ImagePullBackOff: no such tag"),
        ([pod("a", **waiting("CrashLoopBackOff", "back"))], "pod a: CrashLoopBackOff: back"),
        ([pod("a", conditions=[{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu."}])],
         "pod a: no node can take it"),
    ],
)  # fmt: skip
def test_what_keeps_a_gate_from_starting_is_named(pods, says):
    found = why_not_ready(pods)

    assert found.startswith(says)
    assert bool(found) == bool(says)
