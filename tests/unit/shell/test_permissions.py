"""The table of permissions against the calls that the code makes: none is missing, none is idle."""

import ast
import asyncio
import contextlib
from pathlib import Path
from urllib.parse import urlparse

import pytest

import tidegate.flow
from tidegate.api.llmdeployment import GROUP, KIND, PLURAL
from tidegate.core.admission.references import AccessQuestion
from tidegate.core.render import templates
from tidegate.flow.ports import Ref
from tidegate.shell import resources
from tidegate.shell.admission.access import Access
from tidegate.shell.admission.certificate_secret import CertificateSecret, Stored
from tidegate.shell.admission.certificates import Lifetimes, first
from tidegate.shell.admission.registration import Registration
from tidegate.shell.admission.wire import User
from tidegate.shell.cluster import KubernetesCluster
from tidegate.shell.leadership import Leadership

OWN = "tidegate-system"
VERBS = {"POST": "create", "PUT": "update", "DELETE": "delete"}


class Recorder:
    """An API server that notes which permissions it would have asked for."""

    def __init__(self, answers=()):
        self.used = set()
        self.answers = list(answers)

    async def call(self, method, path, *, content_type="", **_):
        group, resource, namespace, name = _parsed(path)
        if method == "GET":
            self._note(group, resource, namespace, "get" if name else "list")
        elif method == "PATCH":
            self._note(group, resource, namespace, "patch")
            if "apply-patch" in content_type:  # may make what is not there
                self._note(group, resource, namespace, "create")
        else:
            self._note(group, resource, namespace, VERBS[method])
        if self.answers:
            return self.answers.pop(0)
        return 200, {"items": [], "metadata": {"resourceVersion": "1"}, "webhooks": [], "spec": {}}

    async def lines(self, path, query, silence_seconds):
        group, resource, namespace, _ = _parsed(path)
        self._note(group, resource, namespace, "watch")
        await asyncio.Event().wait()
        yield {}

    def _note(self, group, resource, namespace, verb):
        self.used.add((namespace == OWN, group, resource, verb))


def _parsed(path):
    parts = urlparse(path).path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = None
    if rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    resource, name, *sub = [*rest, None][: max(2, len(rest))]
    return group, "/".join([resource, *sub]), namespace, name


def _document(kind):
    return {
        "apiVersion": resources.BY_KIND[kind].api_version,
        "kind": kind,
        "metadata": {"name": "x", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
        "spec": {},
    }


def _kinds_that_passes_get():
    """Kinds that the flow asks one object of: those it names, and any that it owns."""
    named = {KIND}
    for path in Path(tidegate.flow.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("cluster.get"):
                named |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    return named | set(resources.OWNED_KINDS)


async def _run_for_a_moment(work):
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await work


async def _passes(api):
    cluster = KubernetesCluster(api, lambda ref: None)
    await asyncio.gather(*(_run_for_a_moment(cache.run(api)) for cache in cluster.caches()))
    for kind in _kinds_that_passes_get():
        await cluster.get(kind, "ns", "x")
    for kind in resources.OWNED_KINDS:
        with contextlib.suppress(KeyError):  # the answer is no object to keep
            await cluster.apply(_document(kind))
        await cluster.delete(_document(kind))
    with contextlib.suppress(KeyError):
        await cluster.scale(_document("Deployment"), 1)
    with contextlib.suppress(KeyError):
        await cluster.set_status(Ref("ns", "x"), "1", {})
    await cluster.pod_log("ns", "x", previous=True, tail_lines=1)
    await cluster.emit(Ref("ns", "x"), "Normal", "Reason", "message")


async def _leads(api):
    api.answers = [(404, {}), (201, _document("Lease"))]
    leadership = Leadership(api, OWN)
    await _run_for_a_moment(leadership.lead(asyncio.Event().wait))
    await leadership.resign()


async def _reviews(api):
    asked = AccessQuestion("create", "pods", "ns")
    api.answers = [(201, {"status": {"allowed": True}})]
    await Access(api).refused(User("jane", "", (), ()), [asked])


async def _keeps_certificates(api):
    held = first(["x.svc"], 0, Lifetimes())
    secret = CertificateSecret(api, OWN)
    api.answers = [(404, {})]
    assert await secret.read() is None
    await secret.write(held, None)
    await secret.write(held, Stored(None, _document("Secret")))
    hook = {"name": "x", "clientConfig": {}}
    seen = (200, {"metadata": {"resourceVersion": "1"}, "webhooks": [hook]})
    api.answers = [seen, (200, {}), seen, (200, {})]
    await Registration(api, "tidegate", lambda: True).trusts(b"bundle")


def _granted(*tables, own=False):
    return {
        (own, group, resource, verb)
        for table in tables
        for group, resource, verbs, *_ in table
        for verb in verbs
    }


def _handed_on():
    """Rights that the operator must have to give them to gates."""
    return {
        (False, group, resource, verb)
        for rule in templates.fill("gate-role.yaml.j2", {"name": "x", "namespace": "ns"})["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


TO_OWN_WHAT_IT_MAKES = {(False, GROUP, f"{PLURAL}/finalizers", "update")}
"""Asked of whoever writes an owner reference that blocks the owner's deletion."""


async def test_what_is_granted_is_what_is_used():
    api = Recorder()
    for work in (_passes, _leads, _reviews, _keeps_certificates):
        await work(api)
    granted = _granted(resources.RULES, resources.NAMED_RULES) | _granted(
        resources.LEASE_RULES, resources.CERTIFICATE_RULES, own=True
    )
    needed = api.used | _handed_on() | TO_OWN_WHAT_IT_MAKES

    assert needed - granted == set(), "used, and not granted"
    assert granted - needed == set(), "granted, and not used"


@pytest.mark.parametrize(
    ("path", "parsed"),
    [
        ("/api/v1/nodes", ("", "nodes", None, None)),
        ("/api/v1/namespaces/a/pods/b/log", ("", "pods/log", "a", "b")),
        ("/apis/apps/v1/namespaces/a/deployments/b", ("apps", "deployments", "a", "b")),
        ("/apis/apps/v1/deployments", ("apps", "deployments", None, None)),
    ],
)
def test_paths_are_read_as_the_api_server_reads_them(path, parsed):
    assert _parsed(path) == parsed
