"""The webhook's server: an answer to anything, in bounded time and memory."""

import asyncio
import base64
import io
import json

import pytest
from aiohttp import ClientSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from tidegate.core.admission import Facts
from tidegate.core.nodes import offers
from tidegate.shell.admission import server as servers
from tidegate.shell.admission import wire
from tidegate.shell.admission.access import Unanswered
from tidegate.shell.admission.metrics import AdmissionMetrics
from tidegate.shell.admission.verdict import Reviewer

LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": "8",
}
NODES = tuple(
    offers(
        {
            "metadata": {"name": "one", "labels": LABELS},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}},
        }
    )
)


def resource(**spec):
    return {
        "apiVersion": "tidegate.io/v1alpha1",
        "kind": "LLMDeployment",
        "metadata": {"name": "chat", "namespace": "default"},
        "spec": {
            "model": {"id": "Qwen/Qwen3-0.6B"},
            "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 4096},
            "pools": {"unified": {}},
            **spec,
        },
    }


def review(new=None, operation="CREATE", **request):
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": "tidegate.io", "version": "v1alpha1", "kind": "LLMDeployment"},
            "name": "chat",
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["dev"]},
            "object": resource() if new is None else new,
            "oldObject": None,
            **request,
        },
    }


class Yes:
    """Everybody may do everything."""

    async def refused(self, user, questions):
        return ()


class No:
    async def refused(self, user, questions):
        return tuple(questions)


class Away:
    async def refused(self, user, questions):
        raise Unanswered("whether ann may create pods could not be asked: 500")


class Slow:
    async def refused(self, user, questions):
        await asyncio.sleep(30)


class Serving:
    """A server without TLS on a port of this machine."""

    def __init__(self, access=None, facts=None, deadline_seconds=2.0):
        self.registry = CollectorRegistry()
        seen = facts or (lambda request: Facts(nodes=NODES))
        reviewer = Reviewer(seen, access or Yes())
        metrics = AdmissionMetrics(self.registry)
        self.server = servers.Server(reviewer, metrics, deadline_seconds)

    async def __aenter__(self):
        self.runner = await self.server.start(0, None, host="127.0.0.1")
        port = self.runner.addresses[0][1]
        self.session = ClientSession(f"http://127.0.0.1:{port}")
        return self

    async def __aexit__(self, *_):
        await self.session.close()
        await self.runner.cleanup()

    async def post(self, body, path="/validate"):
        data = json.dumps(body).encode() if isinstance(body, dict | list) else body
        async with self.session.post(path, data=data) as answer:
            return answer.status, await answer.text()

    async def ask(self, body, path="/validate"):
        status, text = await self.post(body, path)
        assert status == 200, text
        document = json.loads(text)
        assert (document["apiVersion"], document["kind"]) == (
            "admission.k8s.io/v1",
            "AdmissionReview",
        )
        assert document["response"]["uid"] == "705ab4f5"
        return document["response"]

    def counted(self):
        return {
            (s.labels["operation"], s.labels["verdict"], s.labels["reason"]): s.value
            for family in self.registry.collect()
            for s in family.samples
            if s.name == "tidegate_admissions_total" and s.value
        }


async def test_what_works_is_let_in():
    async with Serving() as there:
        assert await there.ask(review()) == {"uid": "705ab4f5", "allowed": True}
        assert there.counted() == {("CREATE", "allowed", ""): 1}


async def test_every_fault_is_told_in_words_and_as_a_cause():
    pools = {"unified": {"tensorParallel": 5}}
    async with Serving() as there:
        answer = await there.ask(review(resource(pools=pools, extra=1)))
        counted = there.counted()

    status = answer["status"]
    assert not answer["allowed"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["name"] == "chat"
    assert [c["field"] for c in status["details"]["causes"]] == ["spec.extra"]
    assert "spec.extra" in status["message"]
    assert counted == {("CREATE", "refused", "InvalidSpec"): 1}


async def test_defaults_are_added_as_a_patch_and_once():
    async with Serving() as there:
        answer = await there.ask(review(), "/mutate")
        patch = json.loads(base64.b64decode(answer["patch"]))
        document = resource()
        for one in patch:
            *parents, last = one["path"].strip("/").split("/")
            part = document
            for step in parents:
                part = part[step]
            part[last] = one["value"]
        again = await there.ask(review(document), "/mutate")

    assert answer["patchType"] == "JSONPatch"
    assert document["spec"]["pools"]["unified"]["replicas"] == 1
    assert "patch" not in again


async def test_the_author_of_a_lever_is_who_the_api_server_says_and_not_who_it_claims():
    lever = {"action": "Open", "until": "2027-01-01T00:00:00Z", "reason": "INC-1"}
    forged = resource(overload={"override": {**lever, "setBy": "somebody else"}})
    async with Serving() as there:
        answer = await there.ask(review(forged, userInfo={"username": "jo"}), "/mutate")

    patch = json.loads(base64.b64decode(answer["patch"]))
    path = "/spec/overload/override/setBy"
    assert [one["value"] for one in patch if one["path"] == path] == ["jo"]


async def test_an_update_that_rolls_pods_says_so():
    new = resource(engine={"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 8192})
    async with Serving() as there:
        answer = await there.ask(review(new, "UPDATE", oldObject=resource()))

    assert answer["allowed"]
    assert answer["warnings"][0].startswith("UpdateRollsPods: spec.engine.maxModelLen")
    assert all(len(line) <= 256 for line in answer["warnings"])


@pytest.mark.parametrize(
    ("access", "code", "words", "counted"),
    [
        (No(), 403, "ann may not create pods", ("CREATE", "denied", "AccessDenied")),
        (Away(), 503, "could not be asked: 500; try again", ("CREATE", "error", "")),
    ],
)
async def test_who_may_not_or_may_be_asked_about_is_kept_out(access, code, words, counted):
    async with Serving(access) as there:
        answer = await there.ask(review())

        assert not answer["allowed"]
        assert answer["status"]["code"] == code
        assert words in answer["status"]["message"]
        assert there.counted() == {counted: 1}


async def test_a_verdict_that_does_not_come_is_no_permission():
    async with Serving(Slow(), deadline_seconds=0.2) as there:
        answer = await there.ask(review())

    assert not answer["allowed"]
    assert "no verdict within 0.2 s" in answer["status"]["message"]
    assert servers.DEADLINE_SECONDS < 5, "the API server waits for no longer"


async def test_a_bug_keeps_out_what_it_hits_and_nothing_else(caplog):
    def facts(request):
        if request.name == "cursed":
            raise RuntimeError("a bug")
        return Facts(nodes=NODES)

    async with Serving(facts=facts) as there:
        bad = await there.ask(review(name="cursed"))
        good = await there.ask(review())

    assert "a fault of tidegate" in bad["status"]["message"]
    assert "a bug" in caplog.text
    assert good["allowed"]


async def test_a_bug_before_the_review_is_read_is_counted_as_well(monkeypatch):
    def cursed(body):
        raise RuntimeError("a bug")

    monkeypatch.setattr(wire, "read", cursed)
    async with Serving() as there:
        assert (await there.post(review()))[0] == 500
        assert there.counted() == {("other", "error", ""): 1}


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_other_operations_are_let_through(operation):
    async with Serving() as there:
        assert (await there.ask(review(operation=operation, object=None)))["allowed"]


async def test_other_kinds_are_let_through_with_a_word():
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    async with Serving() as there:
        for path in ("/mutate", "/validate"):
            answer = await there.ask(review({"spec": 1}, kind=kind), path)
            assert answer["allowed"]
            assert "LLMDeployments only" in answer["warnings"][0]


DEEP = b'{"request":' + b"[" * 50_000 + b"]" * 50_000 + b"}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (DEEP, "not JSON"),
        (b"[]", "must be an AdmissionReview"),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}, "apiVersion must"),
        ({**review(), "request": None}, "request must be an object"),
        (review(uid=""), "request.uid"),
        (review(uid="x" * 129), "request.uid"),
        (review(object=None), "object must be an object"),
        (review(operation="UPDATE"), "oldObject must be an object"),
        (review(userInfo={"username": 1}), "username must be a text"),
        (review(userInfo={"groups": "dev"}), "groups"),
        (review(userInfo={"extra": {"a": "b"}}), "extra"),
    ],
)
async def test_what_is_no_review_is_told_so(body, words):
    async with Serving() as there:
        status, text = await there.post(body)

    assert status == 400
    assert words in text


async def test_what_is_too_large_is_not_read():
    async with Serving() as there:
        status, text = await there.post(io.BytesIO(b" " * (servers.MOST_BYTES + 1)))

    assert status == 413
    assert str(servers.MOST_BYTES) in text


async def test_who_sends_no_body_does_not_hold_a_place_for_long():
    async def silent():
        yield b"{"
        await asyncio.sleep(30)

    async with (
        Serving(deadline_seconds=0.3) as there,
        there.session.post("/validate", data=silent()) as answer,
    ):
        assert answer.status == 408


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(new=st.dictionaries(st.sampled_from(["metadata", "spec", "kind"]), JSON), old=JSON)
def test_no_object_makes_it_stumble(new, old):
    body = json.dumps(review(new, "UPDATE", oldObject=old)).encode()
    reviewer = Reviewer(lambda request: Facts(nodes=NODES), Yes())
    try:
        request = wire.read(body)
    except wire.Malformed:
        return
    answer = asyncio.run(reviewer.validate(request))
    reviewer.mutate(request)

    assert json.loads(answer.body)["response"]["allowed"] in (True, False)
