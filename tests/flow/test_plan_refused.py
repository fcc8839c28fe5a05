"""The plan is refused, or waits for something: what serves goes on, and so do shares and verdicts.

The usual way: somebody restarts GPU feature discovery, and for some minutes no node tells its GPU.
"""

import json

import pytest

from tidegate.core.names import LABEL_REVISION

from .api_server import Fault
from .documents import CONFIG, labels_of
from .evidences import Evidences
from .scenarios import image
from .test_canary import CANARY, changed, deployed, go_on, rollout, weights
from .test_newer_status import lose_labels
from .test_overload import CALM, FULL, config, overloaded, serving, shed, until
from .world import A100, World

MODEL = {"config": None, "configRef": {"name": "cfg", "key": "config.json"}}
MAP = ("ConfigMap", "default", "cfg")


def holds_for(world: World) -> float:
    """Return for how many seconds the share that gates have holds still."""
    return config(world).shed.until.timestamp() - world.clock.now()


def until_in_status(world: World) -> str:
    return world.status()["overload"]["until"]


async def by_labels(world: World):
    return lose_labels(world)


async def by_spec(world: World):
    world.apply(budget={"kvCache": "1Mi"})
    return lambda: world.apply()


async def by_writes_that_fail(world: World):
    world.apply(engine=image("next"))
    world.api.write_fault = lambda verb, document: (
        Fault(500) if document["kind"] == "Deployment" else None
    )

    def mend():
        world.api.write_fault = lambda verb, document: None

    return mend


WAYS = [by_labels, by_spec, by_writes_that_fail]


@pytest.mark.parametrize("refuse", WAYS)
async def test_shares_hold_at_the_gates_for_as_long_as_the_loop_holds_them(refuse):
    world = await overloaded()
    mend = await refuse(world)
    for _ in range(12):
        await world.oversee(30)
        assert holds_for(world) > 0
        assert shed(world) == world.memory.overload.seen[world.refs[0]].decision.shed_percent
    mend()
    await world.oversee(120)
    assert shed(world) == world.status()["overload"]["shedPercent"] > 0
    world.metrics.tell(CALM)
    await world.oversee(900)
    assert config(world).shed is None


@pytest.mark.parametrize("refuse", [by_labels, by_spec])
async def test_what_status_says_of_shares_is_what_gates_have(refuse):
    world = await overloaded()
    await refuse(world)
    for _ in range(8):
        await world.oversee(30)
        assert shed(world) == world.status()["overload"]["shedPercent"]
        assert config(world).shed.until.strftime("%Y-%m-%dT%H:%M:%SZ") == until_in_status(world)
    assert world.condition("Stalled")["status"] == "True"


async def test_a_missing_config_map_lets_no_share_lapse():
    world = World()
    world.engines.is_silent = True
    world.node("a1", A100, 8)
    world.apply(model=MODEL)
    namespace, name = MAP[1:]
    metadata = {"name": name, "namespace": namespace}
    data = {"config.json": json.dumps(CONFIG)}
    world.api.put({"kind": "ConfigMap", "metadata": metadata, "data": data})
    await world.run()
    world.metrics.tell(FULL)
    await world.oversee(120)
    world.api.remove(MAP)

    for _ in range(8):
        await world.oversee(30)
        await world.reconcile()
        assert holds_for(world) > 0
    assert world.condition("Ready")["reason"] == "ReferenceMissing"


async def test_the_share_falls_by_itself_where_the_load_goes_while_the_plan_is_refused():
    world = await overloaded()
    lose_labels(world)
    await world.oversee(120)
    world.metrics.tell(CALM)
    await world.oversee(900)
    assert world.condition("Ready")["reason"] == "GPUUnknown"
    assert config(world).shed is None
    assert world.status()["overload"]["state"] == "Normal"


@pytest.mark.parametrize("refuse", [by_labels, by_spec])
async def test_a_lever_works_while_the_plan_is_refused(refuse):
    world = await overloaded()
    await refuse(world)
    await world.oversee(120)
    spec = {"budget": {"kvCache": "1Mi"}} if refuse is by_spec else {}
    lever = {"action": "Shed", "percent": 50, "until": until(world, 600), "reason": "INC-1"}
    world.apply(overload={"override": lever}, **spec)
    await world.oversee(30)
    assert world.status()["overload"]["summary"] == "override: shed 50%"
    assert shed(world) == 50
    assert holds_for(world) > 0


async def test_a_process_that_begins_while_labels_are_away_lets_no_share_lapse():
    world = await overloaded()
    lose_labels(world)
    await world.oversee(90)
    world.restart()
    for _ in range(6):
        await world.oversee(20)
        assert holds_for(world) > 0


async def test_status_keeps_what_it_said_where_gates_cannot_be_told():
    world = await overloaded()
    lose_labels(world)
    await world.oversee(90)
    said = world.status()["overload"]
    world.api.write_fault = lambda verb, document: (
        Fault(403) if document["kind"] == "ConfigMap" else None
    )
    await world.oversee(300)
    assert world.status()["overload"] == said
    assert world.condition("Ready")["reason"] == "GPUUnknown"


async def test_gates_that_were_never_made_are_no_hindrance():
    world = await serving(budget={"kvCache": "1Mi"})
    assert world.status()["overload"]["state"] == "Normal"
    assert not world.gates.deployments()


async def test_at_rest_a_refused_plan_costs_no_call():
    world = await overloaded(overload={"shed": {"maxPercent": 30}})
    lose_labels(world)
    await world.oversee(300)
    world.metrics.tell(CALM)
    await world.oversee(900)
    calls = len(world.api.writes), len(world.api.reads)
    for _ in range(20):
        await world.reconcile()
        world.clock.pass_by(5)
    assert (len(world.api.writes), len(world.api.reads)) == calls


# a canary


async def halfway(**spec) -> World:
    """Return a world whose canary has its first share of the requests."""
    world = await deployed(**spec)
    await changed(world)
    for _ in range(12):
        await go_on(world, 1)
        if rollout(world)["summary"] == "1/2 10%":
            return world
    raise AssertionError(rollout(world))


async def test_a_canary_that_fails_is_taken_back_though_the_plan_is_refused():
    world = await halfway()
    stable, canary = rollout(world)["stable"], rollout(world)["canary"]
    put_back = lose_labels(world)
    world.evidences.bad = 600.0
    await go_on(world, 60)
    assert world.condition("Ready")["reason"] == "GPUUnknown"
    assert rollout(world)["phase"] in ("Aborting", "Aborted")
    assert weights(world) == {canary: 0, stable: 1000}
    assert world.condition("CanaryHealthy")["status"] == "False"
    world.evidences.bad = 0.0
    put_back()
    await go_on(world, 60)
    assert {labels_of(pod)[LABEL_REVISION] for pod in world.pods()} == {stable}
    assert rollout(world)["phase"] == "Aborted"


@pytest.mark.parametrize("policy", ["Pause", "Abort"])
async def test_the_deadline_is_looked_at_though_the_plan_is_refused(policy):
    spec = {**CANARY, "onInconclusive": policy}
    world = await deployed(rollout=spec, evidences=Evidences(requests=0))
    await changed(world, rollout=spec)
    await go_on(world, 12)
    lose_labels(world)
    await go_on(world, 80, seconds=60)
    if policy == "Abort":
        assert rollout(world)["phase"] == "Aborted"
        assert weights(world)[rollout(world)["stable"]] == 1000
    else:
        assert rollout(world)["summary"] == "1/2 10% inconclusive"


async def test_a_bad_new_spec_leaves_the_canary_before_it_to_its_judge():
    world = await halfway()
    stable = rollout(world)["stable"]
    world.apply(rollout=CANARY, engine=image("third"), budget={"kvCache": "1Mi"})
    world.evidences.bad = 600.0
    await go_on(world, 60)
    assert world.condition("Stalled")["status"] == "True"
    assert rollout(world)["phase"] in ("Aborting", "Aborted")
    assert weights(world)[stable] == 1000


async def test_a_revert_takes_a_canary_back_though_the_plan_is_refused():
    world = await halfway()
    stable, canary = rollout(world)["stable"], rollout(world)["canary"]
    put_back = lose_labels(world)
    await go_on(world, 60)
    assert world.condition("Ready")["reason"] == "GPUUnknown"
    world.apply(pools={"unified": {"replicas": 2}}, rollout=CANARY)
    await go_on(world, 2)
    assert weights(world) == {canary: 0, stable: 1000}
    assert rollout(world)["stable"] == stable
    await go_on(world, 10)
    put_back()
    await go_on(world, 20)
    assert (rollout(world)["phase"], rollout(world)["stable"]) == ("Settled", stable)
    assert {labels_of(pod)[LABEL_REVISION] for pod in world.pods()} == {stable}


async def test_a_command_that_comes_with_a_spec_that_cannot_be_planned_yet_is_not_spent():
    world = await halfway()
    first = rollout(world)["canary"]
    put_back = lose_labels(world)
    await go_on(world, 60)
    command = {"action": "Promote", "revision": await revision_of_third(), "token": "x"}
    await changed(world, "third", rollout={**CANARY, "command": command})
    await go_on(world, 3)
    assert rollout(world)["canary"] == first
    put_back()
    await go_on(world, 20)
    assert (rollout(world)["phase"], rollout(world)["stable"]) == ("Settled", command["revision"])


async def revision_of_third() -> str:
    """Return the revision that a spec leads to: revisions are the same in every cluster."""
    world = await deployed()
    await changed(world, "third")
    await go_on(world, 1)
    return rollout(world)["canary"]


async def test_an_abort_by_command_is_heard_though_the_plan_is_refused():
    world = await halfway()
    stable, canary = rollout(world)["stable"], rollout(world)["canary"]
    lose_labels(world)
    await go_on(world, 10, seconds=20)
    command = {"action": "Abort", "revision": canary, "token": "x"}
    await changed(world, rollout={**CANARY, "command": command})
    await go_on(world, 3)
    assert rollout(world)["because"] == "aborted by command"
    assert weights(world) == {canary: 0, stable: 1000}


async def test_a_canary_that_needs_other_pods_waits_and_is_not_blamed():
    world = await deployed(gpus=8, replicas=4)
    await changed(world, replicas=4)
    for _ in range(12):
        await go_on(world, 1)
        if rollout(world)["summary"] == "1/2 10%":
            break
    canary, before = rollout(world)["canary"], len(world.pods())
    put_back = lose_labels(world)
    await go_on(world, 300, seconds=20)
    assert rollout(world)["step"] == 1
    assert not rollout(world).get("failed")
    assert weights(world)[canary] <= 250
    assert len(world.pods()) == before
    put_back()
    await go_on(world, 300)
    assert (rollout(world)["phase"], rollout(world)["stable"]) == ("Settled", canary)


async def test_no_refused_spec_is_said_to_be_promoted():
    world = await deployed()
    world.apply(rollout=CANARY, budget={"kvCache": "1Mi"})
    await go_on(world, 5)
    promoted = [c for c in world.status()["conditions"] if c["type"] == "Promoted"]
    assert all(condition["status"] != "True" for condition in promoted)


async def test_a_read_that_fails_does_not_keep_the_judge_from_a_canary():
    world = World(evidences=Evidences())
    world.node("a1", A100, 8)
    metadata = {"name": "cfg", "namespace": "default"}
    data = {"config.json": json.dumps(CONFIG)}
    world.api.put({"kind": "ConfigMap", "metadata": metadata, "data": data})
    world.apply(model=MODEL, rollout=CANARY)
    await world.run()
    await changed(world, model=MODEL)
    await go_on(world, 12)
    stable = rollout(world)["stable"]
    assert weights(world)[stable] == 900
    world.api.read_fault = lambda kind, name: name == "cfg"
    world.evidences.bad = 600.0
    await go_on(world, 60)
    assert weights(world)[stable] == 1000


async def test_nothing_is_written_by_a_pass_whose_resource_has_changed_meanwhile():
    world = await overloaded()
    lose_labels(world)
    await world.oversee(120)
    world.api.freeze("LLMDeployment", "ConfigMap", "Deployment", "Pod", "Node")
    world.api.remove(("LLMDeployment", "default", "chat"))
    world.clock.pass_by(40)
    assert await world.tick()
    writes = len(world.api.writes)
    outcome = await world.reconcile()
    assert outcome.result == "stale"
    assert len(world.api.writes) == writes
