"""Engines that end by themselves: each one counts once, in its interval, for its revision."""

from tidegate.core.analysis.evidence import Evidence
from tidegate.core.canary import ends
from tidegate.core.names import ENGINE_CONTAINER, LABEL_REVISION

REVISIONS = frozenset({"new", "old"})
FIRST_END = "1970-01-01T00:01:10Z"


def pod(restarts, revision="new", uid="u1", reason="Error", at=FIRST_END, **metadata):
    ended = {"exitCode": 137, "reason": reason, "containerID": f"c{restarts}", "finishedAt": at}
    return {
        "metadata": {"uid": uid, "name": uid, "labels": {LABEL_REVISION: revision}, **metadata},
        "status": {
            "containerStatuses": [
                {
                    "name": ENGINE_CONTAINER,
                    "restartCount": restarts,
                    "ready": True,
                    "state": {"running": {}},
                    "lastState": {"terminated": ended} if restarts else {},
                }
            ]
        },
    }


def seen(*passes, now=100.0):
    known = {}
    for pods in passes:
        known = ends.seen(known, pods, {}, now, REVISIONS)
    return known


def counts(known, revision="new"):
    intervals = [Evidence(at=30.0 * n, seconds=30.0) for n in range(4)]
    return [one.restarts for one in ends.with_restarts(intervals, known, revision)]


def test_an_engine_that_never_ended_is_none_and_not_unknown():
    assert counts(seen([pod(0)])) == [{}, {}, {}, {}]


def test_an_end_counts_once_however_often_it_is_seen_and_where_its_time_is():
    assert counts(seen([pod(1)], [pod(1)], [pod(1)])) == [{}, {}, {"EngineCrashed": 1.0}, {}]


def test_a_container_that_the_kernel_killed_is_told_apart():
    assert counts(seen([pod(1, reason="OOMKilled")]))[2] == {"OutOfMemoryKilled": 1.0}


def test_ends_between_two_passes_are_not_lost():
    later = pod(3, at="1970-01-01T00:01:50Z")

    assert counts(seen([pod(0)], [pod(1)], [later])) == [
        {},
        {},
        {"EngineCrashed": 1.0},
        {"EngineCrashed": 2.0},
    ]


def test_a_process_that_begins_knows_of_the_last_end_only():
    assert counts(seen([pod(7)])) == [{}, {}, {"EngineCrashed": 1.0}, {}]


def test_an_end_without_a_time_was_when_it_was_seen():
    assert counts(seen([pod(1, at=None)], now=95.0))[3] == {"EngineCrashed": 1.0}


def test_ends_are_of_their_own_revision():
    known = seen([pod(1), pod(1, "old", uid="u2"), pod(1, "third", uid="u3")])

    assert [end.revision for end in known.values()] == ["new", "old"]
    assert counts(known, "old")[2] == {"EngineCrashed": 1.0}


def test_a_pod_that_was_asked_to_end_is_no_fault():
    assert not seen([pod(1, deletionTimestamp="1970-01-01T00:01:00Z")])


def test_what_is_remembered_is_bounded():
    first = seen([pod(1)])

    assert len(ends.seen(first, [pod(10_000)], {}, 100.0, REVISIONS)) == ends.MOST_ENDS
