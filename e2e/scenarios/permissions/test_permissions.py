"""The API server's audit log against the chart: nothing is given in vain, nothing else is done."""

import json

import pytest
from e2e import audit
from e2e.audit import Right
from e2e.cluster import audit as audit_log
from e2e.kube import wait_until
from e2e.llmd import OWN, env
from e2e.operator_install import NAME, NAMESPACE

ROLLOUT_SECONDS = 240.0
LOG_SECONDS = 30.0
ADMISSION = "admissionregistration.k8s.io"
DISCOVERY = "discovery.k8s.io"
MAY_BE_IDLE = {
    **{
        (DISCOVERY, "endpointslices", verb): "only those who have a right can give it to gates"
        for verb in ("get", "list", "watch")
    },
    ("", "persistentvolumeclaims", "get"): "for a deployment that names a claim",
    ("", "pods/log", "get"): "for an engine that has failed, or says what it measured",
    ("", "secrets", "create"): "once, when the first certificate is made",
    ("", "secrets", "get"): "for a deployment that names a Secret",
    ("", "secrets", "update"): "when a certificate is renewed",
    (ADMISSION, "mutatingwebhookconfigurations", "patch"): "when `caBundle` is not the right one",
    (ADMISSION, "validatingwebhookconfigurations", "patch"): "when `caBundle` is not the right one",
    ("coordination.k8s.io", "leases", "create"): "once, by the first leader",
    ("tidegate.io", "llmdeployments/finalizers", "update"): "asked of who sets an owner, no call",
}
"""Rights of the operator that one life of a deployment need not take, each with what takes it."""
GATES_MAY_BE_IDLE = {
    ("", "configmaps", "get"): "a gate lists and watches its one ConfigMap",
    (DISCOVERY, "endpointslices", "get"): "a gate lists and watches",
}
pytestmark = pytest.mark.timeout(1500)  # a whole life, and an API server that starts anew


@pytest.fixture
def log(local):
    """The audit log; an API server that an older checkout started begins one."""
    path = audit_log.log(local.settings)
    if not path.exists():
        local.stop("kube-apiserver")
        local.up()
    wait_until("the audit log is there", path.exists, LOG_SECONDS)
    return path


@pytest.fixture
def calls(kube, operator, namespace, apply, log):
    """What the operator asked for in a deployment's life; what its gates may, and asked for.

    Gates that are switched off lose their Role before they end, so they are looked at before.
    """
    begin = log.stat().st_size
    kube.kubectl("-n", NAMESPACE, "rollout", "restart", f"deployment/{NAME}")
    operator.wait_ready()
    operator.leader()
    deployment = apply("unified.yaml")
    deployment.wait_settled()
    deployment.patch({"engine": {"env": env(DOUBLE_STEP_SECONDS=0.02)}})
    deployment.wait_settled(ROLLOUT_SECONDS)
    gates = audit.given(
        (
            rule
            for role in kube.list("roles", namespace, f"{OWN}={deployment.name}")
            for rule in role["rules"]
        ),
        namespace,
    )
    by_gates = [call for call in audit.read(log, begin) if call.namespace == namespace]
    deployment.patch({"gate": {"enabled": False}})  # takes one of each kind away
    wait_until("no gate is left", lambda: deployment.gates() == [], 60)
    deployment.wait_ready()
    mine = (NAMESPACE, NAME)
    by_operator = [c for c in audit.read(log, begin) if (c.namespace, c.account) == mine]
    return by_operator, gates, by_gates


def installed(kube):
    """What the operator's account has been given."""
    role = kube.get("roles", NAMESPACE, NAME)
    cluster_role = json.loads(kube.kubectl("get", "clusterrole", NAME, "-o", "json"))
    return audit.given(cluster_role["rules"]) | audit.given(role["rules"], NAMESPACE)


def of_kind(rights: set[Right]) -> set[tuple[str, str, str]]:
    return {(right.group, right.resource, right.verb) for right in rights}


def test_the_operator_and_its_gates_use_what_they_are_given_and_nothing_else(kube, calls):
    by_operator, gates, by_gates = calls
    held, used = installed(kube), {call.right for call in by_operator}
    asked = {call.right for call in by_gates}

    assert len(used) > 20
    assert asked
    refused = {str(call.right) for call in by_operator + by_gates if not call.is_allowed}
    assert refused == set(), "asked for, and refused"
    assert audit.uncovered(held, used) == set(), "used, and not given by the chart"
    assert audit.uncovered(gates, asked) == set(), "used by a gate, and not given by its Role"
    assert of_kind(audit.idle(held, used)) - MAY_BE_IDLE.keys() == set(), "given, and not used"
    assert of_kind(audit.idle(gates, asked)) - GATES_MAY_BE_IDLE.keys() == set()
