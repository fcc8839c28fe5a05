"""`tidegate status` shows a canary beside stable: its clock, and what was measured of both."""

import json
import re

import pytest
from tests.unit.cli.cluster import NAMESPACE

from tidegate.api.rollout_history import MetricLook, RolloutLook
from tidegate.cli.cluster import canary_read, canary_table
from tidegate.core.canary import history

HISTORY = f"/api/v1/namespaces/{NAMESPACE}/configmaps/qwen-rollout"
BEGUN = 1_800_000_000.0  # 2027-01-15T08:00:00Z
SPEC = {
    "model": {"id": "Qwen/Qwen3-0.6B"},
    "engine": {"image": "vllm/vllm-openai:v0.32.0"},
    "pools": {"unified": {"replicas": 4}},
    "rollout": {
        "steps": [{"weight": 25, "analysis": "10m"}, {"weight": 50, "pause": "5m"}],
        "warmUp": "1m",
        "deadline": "1h",
    },
}


def rollout(**changes):
    return {
        "summary": "1/2 25%",
        "phase": "Canary",
        "stable": "aaaa",
        "canary": "bbbb",
        "stepSince": "2027-01-15T08:00:00Z",
        "readySince": "2027-01-15T08:01:00Z",
        "because": "tpotP50: slow",
        **changes,
    }


def resource(spec=SPEC, **changes):
    return {"spec": spec, "status": {"observedGeneration": 1, "rollout": rollout(**changes)}}


def look(at="2027-01-15T08:09:00Z", revision="bbbb") -> RolloutLook:
    slow = MetricLook(
        metric="tpotP50", verdict="Fail", canary=0.447, stable=0.046, margin=0.1, samples=21,
        stable_samples=63, message="TPOT p50 is 447 ms against 46 ms",
    )  # fmt: skip
    return RolloutLook(
        at=at,
        revision=revision,
        stable="aaaa",
        step=1,
        weight_percent=25,
        verdict="Fail",
        message="tpotP50: TPOT p50 is 447 ms against 46 ms",
        metrics=[slow],
    )


def canary(*looks, silence="", spec=SPEC, **changes):
    return canary_read.of(resource(spec, **changes), history.Decoded(looks), silence)


@pytest.fixture
def stands(fake_cluster):
    """Return what puts a rollout into the cluster, with the looks that were kept."""

    def put(*looks, **changes):
        fake_cluster.deployment(**resource(**changes))
        if looks:
            data = history.encode(tuple(looks))
            fake_cluster.objects[HISTORY] = {"metadata": {"name": "qwen-rollout"}, "data": data}
        return fake_cluster

    return put


def test_both_values_the_bound_the_samples_and_the_verdict_of_each_metric_are_a_table(
    stands, tidegate
):
    stands(look())
    code, out, errors = tidegate("status", "qwen")

    assert (code, errors) == (0, "")
    [row] = [line for line in out.splitlines() if line.startswith("tpotP50")]
    assert re.split(r"\s{2,}", row.strip()) == [
        "tpotP50", "447 ms", "46 ms", "+871.7 %", "+10 %", "21", "63", "Fail",
    ]  # fmt: skip
    assert "canary bbbb: step 1/2 for" in out
    assert "TPOT p50 is 447 ms against 46 ms" in out


def test_as_json_it_is_the_looks_of_this_rollout_and_its_clock(stands, tidegate):
    stands(look("2027-01-14T00:00:00Z", "0000"), look())
    told = json.loads(tidegate("status", "qwen", "-o", "json")[1])["canary"]

    assert told.pop("looks") == [look().wire()]
    assert told == {
        "revision": "bbbb",
        "stable": "aaaa",
        "phase": "Canary",
        "step": 1,
        "steps": 2,
        "weightPercent": 25,
        "since": "2027-01-15T08:00:00Z",
        "deadlineAt": "2027-01-15T09:11:00Z",
        "historyError": None,
    }


def test_without_a_history_it_says_that_there_is_none_yet(stands, tidegate):
    stands()
    code, out, errors = tidegate("status", "qwen")
    assert (code, errors) == (0, "")
    assert "no measurement is kept yet" in out


def test_without_the_right_to_read_it_the_rest_is_shown(stands, tidegate):
    cluster = stands()
    cluster.refuse["GET", HISTORY] = (403, {"message": "configmaps is forbidden"})
    code, out, _ = tidegate("status", "qwen")
    assert code == 0
    assert "canary bbbb: step 1/2" in out
    assert "its measurements cannot be read: configmaps is forbidden" in out


@pytest.mark.parametrize("phase", ["Settled", None])
def test_without_a_canary_nothing_is_asked(fake_cluster, tidegate, phase):
    status = {"rollout": rollout(phase=phase, canary=None)} if phase else {}
    fake_cluster.deployment(status={"observedGeneration": 1, **status})
    told = json.loads(tidegate("status", "qwen", "-o", "json")[1])
    assert told["canary"] is None
    assert not [call for call in fake_cluster.calls if call.path == HISTORY]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "canary bbbb: step 1/2 for 10m, 25 % of the requests, deadline in 1h 1m"),
        ({"readySince": None}, "canary bbbb: step 1/2 for 10m, 0 % of the requests, deadline in"),
        ({"pausedSince": "2027-01-15T08:05:00Z"}, "25 % of the requests, paused"),
        ({"stepSince": "2027-01-15T00:00:00Z"}, "step 1/2 for 8h 10m, 25 % of the requests, past"),
        ({"phase": "Aborted"}, "canary bbbb: Aborted for 10m"),
        ({"phase": "Promoting"}, "canary bbbb: Promoting for 10m"),
    ],
)
def test_the_title_tells_step_weight_since_when_and_the_time_left(changes, says):
    assert says in canary_table.title(canary(**changes), BEGUN + 600)


def test_a_spec_that_this_version_cannot_read_leaves_the_looks():
    found = canary(look(), spec={"newer": True})
    assert (found.deadline_at, found.weight_percent) == (None, None)
    assert canary_table.title(found, BEGUN + 600) == "canary bbbb: step 1 for 10m"
    assert found.looks


def test_a_status_that_this_version_cannot_read_is_no_canary():
    assert canary_read.of(resource(phase="Newer"), None) is None


def test_the_look_that_failed_is_still_shown_after_the_abort():
    found = canary(look(), phase="Aborted")
    assert canary_table.sentences(found, BEGUN + 600) == [
        "last look 1m ago at step 1: Fail",
        "tpotP50: TPOT p50 is 447 ms against 46 ms",
    ]
