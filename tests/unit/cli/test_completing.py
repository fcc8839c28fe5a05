"""The shell is offered what is there, and nothing where the cluster does not tell."""

import os

import pytest
from click.shell_completion import ShellComplete

from tidegate import cli
from tidegate.cli.cluster import completing


@pytest.fixture
def offered(monkeypatch):
    """Return what is offered for the last word of a line."""
    monkeypatch.setattr(completing, "_SECONDS", 60.0)

    def ask(*words):
        by = ("--kubeconfig", os.environ["KUBECONFIG"]) if "KUBECONFIG" in os.environ else ()
        before = [words[0], *by, *words[1:-1]] if len(words) > 1 else []
        shell = ShellComplete(cli._group, {}, "tidegate", "_TIDEGATE_COMPLETE")
        return [item.value for item in shell.get_completions(before, words[-1])]

    return ask


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("shed", "q"), ["qwen"]),
        (("top", ""), ["qwen", "west"]),
        (("shift", "qwen", "5", "--to", "w"), ["west"]),
        (("drain", "qwen", "qwen-u"), ["qwen-unified-a-1"]),
        (("drain", "west", ""), []),
    ],
)
def test_names_that_are_in_the_cluster_are_offered(fake_cluster, offered, words, wanted):
    fake_cluster.deployment("west")
    labels = {"tidegate.io/deployment": "qwen", "tidegate.io/pool": "unified"}
    fake_cluster.pod("qwen-unified-a-1", labels)

    assert offered(*words) == wanted


def test_where_the_cluster_refuses_nothing_is_offered(fake_cluster, offered):
    fake_cluster.refuse[("GET", "/apis/tidegate.io")] = (403, {"message": "no"})
    assert offered("shed", "q") == []


def test_commands_are_offered(monkeypatch, offered):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert offered("sh") == ["shed", "shift"]
