"""Kubernetes' Pod Security Standard `restricted`, on pods as they are rendered."""

import copy
from pathlib import Path

import pytest
import yaml

from tidegate.core.admission import held, pod_security
from tidegate.errors import Refused

RENDERED = sorted((Path(__file__).parents[3] / "golden" / "rendered").glob("*.yaml"))
GOOD = {
    "metadata": {},
    "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": "engine",
                "ports": [{"containerPort": 8000}],
                "startupProbe": {"httpGet": {"path": "/health", "port": "http"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
        "volumes": [{"name": "a", "emptyDir": {}}],
    },
}
CONTEXT = "spec.containers[0].securityContext"


def changed(path, value):
    pod = copy.deepcopy(GOOD)
    *parents, last = path
    part = pod
    for step in parents:
        part = part[step] if isinstance(part, list) else part.setdefault(step, {})
    part[last] = value
    return pod


def inside(*rest):
    return ("spec", "containers", 0, *rest)


def test_a_restricted_pod_breaks_nothing():
    assert pod_security.check(GOOD) == []


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("spec", "hostNetwork"), True, "spec.hostNetwork"),
        (("spec", "hostPID"), True, "spec.hostPID"),
        (("spec", "hostIPC"), True, "spec.hostIPC"),
        (("spec", "volumes"), [{"name": "a", "hostPath": {"path": "/"}}], "spec.volumes[0]"),
        (("spec", "volumes"), [{"name": "a", "nfs": {}}], "spec.volumes[0].nfs"),
        (("spec", "securityContext", "runAsUser"), 0, "spec.securityContext.runAsUser"),
        (("spec", "securityContext", "runAsNonRoot"), False, "spec.securityContext.runAsNonRoot"),
        (("spec", "securityContext", "seccompProfile"), {"type": "Unconfined"}, "seccompProfile"),
        (("spec", "securityContext", "appArmorProfile"), {"type": "Unconfined"}, "appArmorProfile"),
        (("spec", "securityContext", "seLinuxOptions"), {"type": "spc_t"}, "seLinuxOptions.type"),
        (("spec", "securityContext", "seLinuxOptions"), {"user": "root"}, "seLinuxOptions.user"),
        (("spec", "securityContext", "sysctls"), [{"name": "kernel.msgmax"}], "sysctls"),
        (("spec", "securityContext", "windowsOptions"), {"hostProcess": True}, "hostProcess"),
        (inside("securityContext", "privileged"), True, f"{CONTEXT}.privileged"),
        (inside("securityContext", "allowPrivilegeEscalation"), True, "allowPrivilegeEscalation"),
        (inside("securityContext", "procMount"), "Unmasked", "procMount"),
        (inside("securityContext", "runAsUser"), 0, f"{CONTEXT}.runAsUser"),
        (inside("securityContext", "capabilities"), {}, "capabilities.drop"),
        (
            inside("securityContext", "capabilities"),
            {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
            "capabilities.add",
        ),
        (inside("ports"), [{"containerPort": 1, "hostPort": 1}], "ports[0].hostPort"),
        (inside("livenessProbe"), {"httpGet": {"host": "10.0.0.1"}}, "livenessProbe.httpGet.host"),
        (
            inside("lifecycle"),
            {"preStop": {"tcpSocket": {"host": "a"}}},
            "lifecycle.preStop.tcpSocket.host",
        ),
        (("spec", "initContainers"), [{"name": "a"}], "spec.initContainers[0]"),
        (("spec", "ephemeralContainers"), [{"name": "a"}], "spec.ephemeralContainers[0]"),
        (
            ("metadata", "annotations"),
            {"container.apparmor.security.beta.kubernetes.io/engine": "unconfined"},
            "metadata.annotations",
        ),
    ],
)
def test_each_rule_is_named_where_it_is_broken(path, value, where):
    found = pod_security.check(changed(path, value))

    assert found
    assert any(where in one.field for one in found), found


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (
            inside("securityContext", "capabilities"),
            {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        ),
        (("spec", "securityContext", "sysctls"), [{"name": "net.ipv4.tcp_syncookies"}]),
        (("spec", "securityContext", "seLinuxOptions"), {"type": "container_t", "level": "s0"}),
        (("spec", "volumes"), [{"name": "a", "projected": {}}, {"name": "b", "secret": {}}]),
    ],
)
def test_what_the_standard_allows_is_allowed(path, value):
    assert pod_security.check(changed(path, value)) == []


@pytest.mark.parametrize("field", ["seccompProfile", "runAsNonRoot"])
def test_what_neither_the_pod_nor_a_container_says_is_missing(field):
    pod = copy.deepcopy(GOOD)
    del pod["spec"]["securityContext"][field]

    assert [one.field for one in pod_security.check(pod)] == [f"pod.{CONTEXT}.{field}"]


def test_rendered_objects_that_break_a_rule_are_not_written():
    broken = {"kind": "Deployment", "spec": {"template": changed(("spec", "hostPID"), True)}}

    with pytest.raises(Refused, match="hostPID"):
        held.require_restricted([{"kind": "Service"}, broken])


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.stem)
def test_every_golden_pod_is_restricted(path):
    documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))

    assert any(document["kind"] == "Deployment" for document in documents)
    held.require_restricted(documents)
