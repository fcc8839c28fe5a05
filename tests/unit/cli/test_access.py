"""Which cluster and namespace a command goes to: those that kubectl would go to."""

import asyncio

import pytest
from tests.unit.cli.cluster import write_kubeconfig

from tidegate.cli.cluster import access
from tidegate.cli.cluster.access import Access
from tidegate.errors import Invalid
from tidegate.shell import api_server, kubeconfig

POD = "http://pod.invalid"


@pytest.fixture
def in_pod(tmp_path, monkeypatch):
    """A pod with an account of its own, and no kubeconfig."""

    def load(client_configuration):
        client_configuration.host = POD

    monkeypatch.setattr(api_server.config, "load_incluster_config", load)
    (tmp_path / "namespace").write_text("pods-own\n")
    monkeypatch.setattr(kubeconfig, "_ACCOUNTS_NAMESPACE", tmp_path / "namespace")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def went_to(**named):
    async def ask():
        async with access.connected(Access(**named)) as cluster:
            return cluster._api.configuration.host, cluster.namespace

    return asyncio.run(ask())


def test_in_a_pod_without_a_kubeconfig_it_is_the_pods_own_account(in_pod, monkeypatch):
    assert went_to() == (POD, "pods-own")
    monkeypatch.setenv("KUBECONFIG", "")
    assert went_to() == (POD, "pods-own")
    (in_pod / "namespace").unlink()
    assert went_to() == (POD, "default")


@pytest.mark.parametrize("way", ["option", "variable", "home"])
def test_in_a_pod_a_kubeconfig_comes_first(in_pod, monkeypatch, way):
    (in_pod / ".kube").mkdir()
    path = write_kubeconfig(in_pod / (".kube/config" if way == "home" else "named"), 12345)
    if way == "variable":
        monkeypatch.setenv("KUBECONFIG", path)
    named = {"kubeconfig": path} if way == "option" else {}

    assert went_to(**named) == ("http://127.0.0.1:12345", "chat")


def test_a_variable_that_names_no_file_does_not_lead_to_another_cluster(in_pod, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(in_pod / "missing"))

    with pytest.raises(Invalid, match="no kubeconfig that can be used"):
        went_to()


@pytest.mark.parametrize(
    "text",
    [
        "a: [1\n b: {",
        "[]",
        "just words",
        "3",
        "",
        "contexts: 3",
        "contexts: [3]",
        "\x00",
        "a: \t b",
    ],
)
def test_what_is_no_kubeconfig_is_told_in_one_line(in_pod, tidegate, monkeypatch, text):
    path = in_pod / "broken"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))

    code, out, errors = tidegate("status", "qwen")

    assert (code, out) == (2, "")
    assert len(errors.splitlines()) == 1
    assert "no kubeconfig that can be used" in errors
    assert "a bug of Tidegate" not in errors
