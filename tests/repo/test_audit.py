"""The audit log against what is given: a right too many and a call too many are both seen."""

import json

import pytest
from e2e import audit
from e2e.audit import Right
from e2e.cluster import audit as server

POD_READER = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
ONE_SECRET = {
    "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["tls"],
}  # fmt: skip


def event(verb, resource, *, user="system:serviceaccount:own:tidegate", code=200, **more):
    about = {"resource": resource, "apiVersion": "v1", **more}
    allowed = "forbid" if code == 403 else "allow"
    return {
        "user": {"username": user},
        "verb": verb,
        "objectRef": about,
        "responseStatus": {"code": code},
        "annotations": {"authorization.k8s.io/decision": allowed},
    }


@pytest.fixture
def calls(tmp_path):
    """Writes events as the API server does, and reads them back."""

    def read(*events, rest=""):
        path = tmp_path / "audit.jsonl"
        path.write_text("".join(f"{json.dumps(one)}\n" for one in events) + rest)
        return list(audit.read(path))

    return read


@pytest.mark.parametrize(
    ("told", "rights"),
    [
        (event("list", "pods"), [Right("", "pods", "list")]),
        (
            event("get", "pods", subresource="log", namespace="a", name="x"),
            [Right("", "pods/log", "get", "a", "x")],
        ),
        (
            event("patch", "deployments", apiGroup="apps", namespace="a", name="x"),
            [Right("apps", "deployments", "patch", "a", "x")],
        ),
        (  # an apply that made what was not there
            event("patch", "deployments", apiGroup="apps", namespace="a", name="x", code=201),
            [
                Right("apps", "deployments", "patch", "a", "x"),
                Right("apps", "deployments", "create", "a"),
            ],
        ),
        (event("list", "pods", user="system:admin"), []),
        (event("list", "pods", user="system:node:n1"), []),
        ({"user": {"username": "system:serviceaccount:a:b"}, "verb": "get"}, []),  # /healthz
    ],
)  # fmt: skip
def test_a_line_tells_which_rights_were_needed(calls, told, rights):
    assert [call.right for call in calls(told)] == rights


def test_a_call_tells_whose_it_was_and_whether_it_was_let(calls):
    let, refused = calls(event("list", "pods"), event("list", "secrets", code=403))

    assert (let.namespace, let.account, let.is_allowed) == ("own", "tidegate", True)
    assert not refused.is_allowed


def test_a_line_that_is_being_written_is_left_for_later(calls):
    assert len(calls(event("list", "pods"), rest='{"user": {"userna')) == 1


@pytest.mark.parametrize(
    ("rules", "used", "is_covered"),
    [
        ([POD_READER], Right("", "pods", "list", "a"), True),
        ([POD_READER], Right("", "pods/log", "get", "a", "x"), True),
        ([POD_READER], Right("", "pods", "watch"), False),
        ([POD_READER], Right("", "pods/exec", "get", "a", "x"), False),
        ([POD_READER], Right("metrics.k8s.io", "pods", "list"), False),
        ([ONE_SECRET], Right("", "secrets", "get", "a", "tls"), True),
        ([ONE_SECRET], Right("", "secrets", "get", "a", "other"), False),
    ],
)
def test_what_is_done_without_a_right_for_it_is_seen(rules, used, is_covered):
    assert (audit.uncovered(audit.given(rules), {used}) == set()) is is_covered


def test_a_role_gives_nothing_in_another_namespace():
    rights = audit.given([POD_READER], "a")

    assert audit.uncovered(rights, {Right("", "pods", "list", "a")}) == set()
    assert audit.uncovered(rights, {Right("", "pods", "list", "b")})


def test_what_is_given_and_never_used_is_seen():
    rights = audit.given([POD_READER])

    assert {str(right) for right in audit.idle(rights, {Right("", "pods", "list", "a")})} == {
        "get pods",
        "get pods/log",
        "list pods/log",
    }


def test_the_api_server_writes_down_no_contents():
    levels = {rule["level"] for rule in server.POLICY["rules"]}

    assert levels == {"None", "Metadata"}
