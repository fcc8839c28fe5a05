"""pause, resume, promote, abort and retry: what they write, and what they refuse."""

import pytest
from tests.unit.cli.cluster import resource_path

QWEN = resource_path("qwen")


@pytest.fixture
def stands(fake_cluster):
    """Return what puts the deployment's rollout in a phase."""

    def put(phase: str, canary: str | None = "aaaa1111"):
        rollout = {"phase": phase, "summary": phase, "stable": "bbbb2222", "because": "of x"}
        if canary:
            rollout["canary"] = canary
        fake_cluster.objects[QWEN]["status"]["rollout"] = rollout
        return fake_cluster

    return put


def rollout_of(cluster):
    return cluster.objects[QWEN]["spec"]["rollout"]


@pytest.mark.parametrize(
    ("verb", "phase"),
    [("promote", "Canary"), ("promote", "Aborted"), ("abort", "Canary"), ("abort", "Promoting"),
     ("retry", "Aborted")],
)  # fmt: skip
def test_a_command_names_the_revision_that_was_shown(tidegate, stands, verb, phase):
    cluster = stands(phase)

    code, out, errors = tidegate(verb, "qwen", "--yes")

    assert (code, errors) == (0, "")
    assert "revision aaaa1111 beside stable bbbb2222: of x" in out
    said = rollout_of(cluster)["command"]
    assert (said["action"], said["revision"]) == (verb.capitalize(), "aaaa1111")
    assert said["token"]


@pytest.mark.parametrize(("verb", "paused"), [("pause", True), ("resume", False)])
def test_pause_and_resume_set_one_field(tidegate, stands, verb, paused):
    cluster = stands("Canary")

    assert tidegate(verb, "qwen", "--yes")[0] == 0
    assert rollout_of(cluster) == {"paused": paused}


@pytest.mark.parametrize(
    ("verb", "phase", "says"),
    [
        ("promote", "Settled", "qwen is settled on revision bbbb2222"),
        ("abort", "Aborted", "the rollout of qwen is Aborted, not Canary or Promoting"),
        ("retry", "Canary", "the rollout of qwen is Canary, not Aborted or Aborting"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(tidegate, stands, verb, phase, says):
    cluster = stands(phase)

    code, _, errors = tidegate(verb, "qwen", "--yes")

    assert code == 1
    assert errors == f"tidegate: nothing to {verb}: {says}\n"
    assert not cluster.called("PATCH")


def test_without_a_terminal_and_yes_nothing_is_written(tidegate, stands):
    cluster = stands("Canary")

    code, _, errors = tidegate("promote", "qwen")

    assert code == 1
    assert "--yes" in errors
    assert not cluster.called("PATCH")
