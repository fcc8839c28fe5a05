"""The gate before the engines: made, told of every change, asked once, a part of Ready."""

import json

import pytest

from tidegate.api.gate_config import GateConfig
from tidegate.flow import gather

from .api_server import CRD
from .scenarios import PAIR, image
from .world import A100, World

KEY = ("ConfigMap", "default", "chat-gate")


def config(world: World) -> GateConfig:
    return GateConfig.model_validate_json(world.api.objects[KEY]["data"]["gate.json"])


async def applied(gpus=4, prepare=lambda world: None, **spec) -> World:
    world = World()
    world.node("a1", A100, gpus)
    world.engines.is_silent = True
    prepare(world)
    world.apply(**spec)
    await world.run()
    return world


async def test_a_deployment_has_two_gates_and_says_where_clients_connect():
    world = await applied()

    assert len(world.gates.pods()) == 2
    assert world.status()["address"] == "http://chat.default.svc"
    assert world.status()["gate"] == {"desired": 2, "ready": 2}
    assert ("Service", "default", "chat") in world.api.objects


async def test_another_port_is_part_of_the_address():
    world = await applied(gate={"service": {"port": 8000}, "replicas": 1})

    assert world.status()["address"] == "http://chat.default.svc:8000"
    assert world.status()["gate"] == {"desired": 1, "ready": 1}


async def test_a_change_of_the_gate_restarts_no_engine():
    world = await applied()
    before = {pod["metadata"]["name"] for pod in world.pods()}
    world.apply(gate={"maxQueue": 3, "replicas": 3})
    await world.run()

    assert {pod["metadata"]["name"] for pod in world.pods()} == before
    assert config(world).limits.max_queue == 3
    assert len(world.gates.pods()) == 3


async def test_a_gate_that_is_switched_off_goes_with_all_its_objects():
    world = await applied()
    world.apply(gate={"enabled": False})
    await world.run()

    left = [key for key, found in world.api.objects.items() if gather.is_gate(found)]
    assert left == []
    assert "address" not in world.status()
    assert world.condition("Ready")["status"] == "True"
    assert len(world.ready("unified")) == 2


async def test_what_somebody_deleted_or_changed_of_it_is_put_right():
    world = await applied()
    for kind, name in (
        ("ConfigMap", "chat-gate"),
        ("Role", "chat-gate"),
        ("RoleBinding", "chat-gate"),
        ("Service", "chat"),
        ("Deployment", "chat-gate"),
    ):
        world.api.remove((kind, "default", name))
    await world.run()
    assert len(world.gates.pods()) == 2

    world.api.patch(KEY, data={"gate.json": "{}"})
    await world.run()
    assert config(world).deployment == "chat"


@pytest.mark.parametrize("annotations", [{}, {"team": "chat"}], ids=["bare", "with-the-users"])
async def test_a_restart_of_the_gates_by_hand_stays_and_is_not_made_twice(annotations):
    """As `kubectl rollout restart` does it: an annotation of another writer."""
    key, restarted = (
        ("Deployment", "default", "chat-gate"),
        {"kubectl.kubernetes.io/restartedAt": "T"},
    )
    template = {"podTemplate": {"annotations": annotations}}

    def on_pods(world):
        return world.api.objects[key]["spec"]["template"]["metadata"].get("annotations", {})

    world = await applied(gate=template)
    live = world.api.objects[key]
    pods = live["spec"]["template"]
    metadata = {**pods["metadata"], "annotations": on_pods(world) | restarted}
    world.api.patch(key, spec={**live["spec"], "template": {**pods, "metadata": metadata}})
    before = len(world.api.writes)
    await world.run_for(20)

    assert ("apply", "Deployment", "chat-gate") not in world.api.writes[before:]
    assert on_pods(world) == annotations | restarted

    world.apply(gate=template | {"replicas": 3})
    await world.run()

    assert len(world.gates.pods()) == 3
    assert on_pods(world) == annotations | restarted


async def test_a_service_of_the_deployments_name_that_is_somebody_elses_is_left_alone():
    def occupy(world):
        metadata = {"name": "chat", "namespace": "default"}
        world.api.put({"kind": "Service", "metadata": metadata, "spec": {"ports": []}})

    world = await applied(prepare=occupy)

    assert world.condition("Ready")["reason"] == "Conflict"
    assert "Service chat " in world.condition("Ready")["message"]
    assert world.api.objects["Service", "default", "chat"]["spec"] == {"ports": []}


@pytest.mark.parametrize("pools", [{"unified": {"replicas": 2}}, PAIR], ids=["unified", "pair"])
async def test_gates_know_every_revision_that_has_pods_through_a_rollout(pools):
    world = await applied(gpus=4, pools=pools)
    seen = []

    def look():
        told = config(world)
        slices = {entry.name for entry in told.slices}
        running = {d["metadata"]["name"] for d in world.deployments()}
        pods = {p["metadata"]["name"].rpartition("-")[0] for p in world.pods()}
        assert pods <= slices | (pods - running), "a pod without a slice gets no request"
        seen.append({entry.name: entry.weight for entry in told.revisions})

    world.apply(pools=pools, engine=image("next"))
    await world.run(watch=look)

    assert any(len(weights) == 2 and min(weights.values()) > 0 for weights in seen)
    assert seen[-1] == {world.status()["revision"]: 1000}
    assert all(sum(weights.values()) in range(999, 1003) for weights in seen)


async def test_the_configuration_is_written_only_when_it_differs():
    world = await applied()
    version = world.api.objects[KEY]["metadata"]["resourceVersion"]
    await world.run_for(20)
    assert world.api.objects[KEY]["metadata"]["resourceVersion"] == version


async def test_gates_are_asked_until_the_answer_is_sure_and_not_again_at_rest():
    world = await applied()
    await world.run_for(30)
    asked = len(world.gates.asked)
    assert 2 <= asked <= 12
    await world.run_for(30)
    assert len(world.gates.asked) == asked
    assert world.gates.tried == []


async def pulled(world: World) -> None:
    """Pull a lever, of which the gates do not see anything yet."""
    world.gates.frozen = config(world)
    until = "2999-01-01T00:00:00Z"
    lever = {"action": "Shed", "percent": 10, "until": until, "reason": "INC-1"}
    world.apply(overload={"override": lever})


def generation(world: World) -> int:
    ref = world.refs[0]
    return world.api.objects[CRD, ref.namespace, ref.name]["metadata"]["generation"]


class TestReady:
    async def test_it_waits_for_a_gate(self):
        world = await applied(prepare=lambda w: setattr(w.gates, "is_absent", True))
        assert world.condition("Ready")["reason"] == "GateUnavailable"
        assert world.condition("Available")["status"] == "False"
        assert world.condition("Reconciling")["status"] == "True"

        world.gates.is_absent = False
        await world.run()
        assert world.condition("Ready")["status"] == "True"
        assert world.condition("Available")["status"] == "True"

    async def test_a_gate_that_does_not_answer_is_not_taken_for_one_that_serves(self):
        def silence(world):
            world.gates.is_silent, world.patience = True, 8

        world = await applied(prepare=silence)
        assert world.condition("Ready")["reason"] == "GateUnavailable"
        assert "no answer" in world.condition("Ready")["message"]

        world.gates.is_silent = False
        await world.run_for(20)
        assert world.condition("Ready")["status"] == "True"

    async def test_a_gate_that_is_slow_to_tell_of_a_change_serves_all_the_same(self):
        world = await applied()
        world.gates.is_silent = True
        world.api.patch(KEY, data={"gate.json": "{}"})
        await world.run_for(10)
        assert world.condition("Ready")["status"] == "True"

    async def test_pulling_a_lever_puts_no_alarm_into_the_events(self):
        """Gates serve the generation before for a moment: nothing is wrong with the deployment."""
        world = await applied()
        await world.run_for(10)
        told = len(world.api.events)
        await pulled(world)
        await world.run_for(3)
        assert world.condition("Ready")["status"] == "True"
        assert world.status()["observedGeneration"] < generation(world), "who waits goes on waiting"

        world.gates.frozen = None
        await world.run_for(5)
        assert world.condition("Ready")["status"] == "True"
        assert world.status()["observedGeneration"] == generation(world)
        assert [event for event in world.api.events[told:] if event[0] == "Warning"] == []

    async def test_gates_that_never_take_a_change_are_told_of_within_seconds(self):
        world = await applied()
        await pulled(world)
        await world.run_for(10)
        assert world.condition("Ready")["reason"] == "GateUnavailable"
        assert "the spec is generation" in world.condition("Ready")["message"]
        assert world.status()["observedGeneration"] == generation(world)

        seen = []
        world.restart()
        for _ in range(10):
            await world.run_for(1)
            seen.append(world.condition("Ready")["reason"])
        assert set(seen) == {"GateUnavailable"}, "a new process does not take it back"

    async def test_a_gate_that_refuses_a_change_is_told_of_at_once(self):
        world = await applied()
        world.gates.refusal = "slices: too many"
        await pulled(world)
        await world.run_for(2)
        assert world.condition("Ready")["reason"] == "GateConfigRefused"

    async def test_gates_have_their_moment_after_a_spec_that_could_not_be_followed_at_once(self):
        world = await applied()
        world.gates.frozen = config(world)
        world.apply(gate={"keysSecretRef": {"name": "keys", "key": "tenants"}})
        await world.run_for(90)
        assert world.condition("Ready")["reason"] == "ReferenceMissing"

        told = len(world.api.events)
        metadata = {"name": "keys", "namespace": "default"}
        world.api.put({"kind": "Secret", "metadata": metadata, "data": {"tenants": "eA=="}})
        await world.run_for(3)
        world.gates.frozen = None
        await world.run_for(20)
        assert world.condition("Ready")["status"] == "True"
        assert "GateUnavailable" not in {reason for _, reason, _ in world.api.events[told:]}

    async def test_a_refused_configuration_is_told_with_its_fault_and_when_it_has_passed(self):
        world = await applied(prepare=lambda w: setattr(w.gates, "refusal", "slices: too many"))
        assert world.condition("Ready")["reason"] == "GateConfigRefused"
        assert "slices: too many" in world.condition("Stalled")["message"]
        assert world.condition("Available")["status"] == "True"

        world.gates.refusal = ""
        await world.run_for(30)
        assert world.condition("Ready")["status"] == "True"

    @pytest.mark.parametrize("is_there", [False, True], ids=["at first", "later"])
    async def test_a_missing_secret_of_keys_is_named_and_no_gate_waits_for_it(self, is_there):
        keys = {"name": "keys", "key": "tenants"}
        world = await applied() if is_there else await applied(gate={"keysSecretRef": keys})
        world.apply(gate={"keysSecretRef": keys})
        await world.run()
        assert world.condition("Ready")["reason"] == "ReferenceMissing"
        assert "Secret keys does not exist" in world.condition("Ready")["message"]
        assert len(world.gates.pods()) == (2 if is_there else 0)

        metadata = {"name": "keys", "namespace": "default"}
        world.api.put({"kind": "Secret", "metadata": metadata, "data": {"tenants": "eA=="}})
        await world.run()
        assert world.condition("Ready")["status"] == "True"


class TestPairs:
    async def test_a_pair_is_tried_once_and_then_available(self):
        world = await applied(pools=PAIR)
        assert world.condition("Available")["status"] == "True"
        assert world.gates.tried == [world.status()["revision"]]
        await world.run_for(30)
        assert len(world.gates.tried) == 1

    async def test_a_unified_pool_is_not_tried(self):
        assert (await applied()).gates.tried == []

    async def test_a_pair_that_fails_is_incompatible_until_it_works(self):
        world = World()
        world.node("a1", A100, 4)
        world.engines.is_silent, world.patience = True, 10
        world.apply(pools=PAIR)
        await world.run_for(1)
        world.gates.incompatible = {
            d["metadata"]["labels"]["tidegate.io/revision"] for d in world.deployments()
        }
        await world.run()
        for kind in ("Ready", "Available"):
            assert world.condition(kind)["reason"] == "PairIncompatible"
            assert "status 500: other layout" in world.condition(kind)["message"]

        world.gates.incompatible = set()
        await world.run_for(60)
        assert world.condition("Ready")["status"] == "True"

    async def test_a_new_revision_that_cannot_exchange_kv_is_told_while_the_old_one_serves(self):
        world = await applied(gpus=6, pools=PAIR)
        old = world.status()["revision"]

        def break_the_new_one():
            there = {d["metadata"]["labels"]["tidegate.io/revision"] for d in world.deployments()}
            world.gates.incompatible = there - {old}

        world.patience = 10
        world.apply(pools=PAIR, engine=image("next"))
        break_the_new_one()
        await world.run(watch=break_the_new_one)
        assert world.condition("Ready")["reason"] == "PairIncompatible"

    async def test_a_new_process_tries_it_once_more(self):
        world = await applied(pools=PAIR)
        world.restart()
        await world.run_for(20)
        assert len(world.gates.tried) == 2
        assert world.condition("Available")["status"] == "True"


async def test_a_document_of_a_gate_is_json_that_people_can_read():
    world = await applied()
    text = world.api.objects[KEY]["data"]["gate.json"]
    assert json.loads(text)["deployment"] == "chat"
    assert len(text.splitlines()) > 20
