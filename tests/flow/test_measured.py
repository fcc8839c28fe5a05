"""What engines tell: shown beside the plan, kept, used at the next rollout, and never a restart."""

import asyncio

import pytest

from .api_server import Fault
from .moments import crashed
from .world import A100, World

PROFILED = {"budget": {"kvCache": None}, "pools": {"unified": {"replicas": 2}}}
STORE = ("ConfigMap", "default", "tidegate-measurements")
GIB = 2**30


def next_rollout(**more):
    """The same engine in other pods: a new revision that needs the same memory."""
    pool = {"replicas": 2, "podTemplate": {"annotations": {"team": "chat"}}}
    return {**PROFILED, "pools": {"unified": pool}, **more}


async def running(spec=PROFILED, prepare=lambda world: None, **labels) -> World:
    world = World()
    world.node("a1", A100, **labels)
    prepare(world)
    world.apply(**spec)
    await world.run()
    assert world.condition("Ready")["status"] == "True", world.condition("Ready")
    return world


def slow_down(api) -> None:
    """Let reads and writes take their time, so that passes overlap."""
    get, apply = api.get, api.apply

    async def slow_get(*arguments):
        found = await get(*arguments)
        await asyncio.sleep(0.01)
        return found

    async def slow_apply(document):
        await asyncio.sleep(0.01)
        return await apply(document)

    api.get, api.apply = slow_get, slow_apply


def off_plan(world: World) -> None:
    world.engines.activations_bytes = 12 * GIB


def arguments(world: World) -> list[str]:
    (deployment,) = world.deployments()
    return deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def planned(world: World) -> dict:
    (entry,) = world.status()["plan"]
    return entry


def uids(world: World) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.pods()}


async def test_an_engine_that_was_given_its_kv_has_what_was_planned():
    world = await running({})

    entry = planned(world)

    assert entry["measured"] == {
        "kvTokens": entry["kvTokens"],
        "kvBlocks": entry["kvBlocks"],
        "blockSize": entry["kvBlockSize"],
        "driftPercent": 0.0,
    }
    assert world.condition("BudgetDrift")["status"] == "False"
    assert world.condition("BudgetDrift")["reason"] == "AsPlanned"


class TestDrift:
    async def test_it_is_told_with_the_term_that_is_off(self):
        world = await running(prepare=off_plan)

        told = world.condition("BudgetDrift")

        assert (told["status"], told["reason"]) == ("True", "KVSmallerThanPlanned")
        assert "activations take 12.0Gi where" in told["message"]
        assert planned(world)["measured"]["driftPercent"] < -5
        assert world.condition("Ready")["status"] == "True"

    @pytest.mark.parametrize(("limit", "status"), [(5.0, "True"), (50.0, "False")])
    async def test_the_operators_settings_say_from_when_on(self, limit, status):
        def strict(world):
            off_plan(world)
            world.settings = type(world.settings)(drift_limit_percent=limit)

        world = await running(prepare=strict)
        assert world.condition("BudgetDrift")["status"] == status

    async def test_healthy_pods_stay_as_they_are(self):
        world = await running(prepare=off_plan)
        pods, template, version = uids(world), arguments(world), world.api.version
        for _ in range(3):
            world.restart()
            await world.run_for(20)
        assert (uids(world), arguments(world)) == (pods, template)
        assert world.api.version == version, "nothing was written"

    async def test_more_replicas_are_made_as_the_others(self):
        world = await running(prepare=off_plan)
        pods, template = uids(world), arguments(world)
        world.apply(**{**PROFILED, "pools": {"unified": {"replicas": 4}}})
        await world.run()
        assert pods < uids(world)
        assert arguments(world) == template

    async def test_the_next_rollout_uses_what_was_measured(self):
        world = await running(prepare=off_plan)
        before = planned(world)
        assert before["perGpu"]["kvCache"]["how"] == "estimated"
        assert not any("--kv-cache-memory-bytes" in word for word in arguments(world))

        world.restart()
        world.apply(**next_rollout())
        await world.run()

        after = planned(world)
        assert after["kvBlocks"] == before["measured"]["kvBlocks"]
        lines = {name: line["how"] for name, line in after["perGpu"].items()}
        assert {lines[name] for name in ("weights", "activations", "kvCache")} == {"measured"}
        kv_bytes = after["perGpu"]["kvCache"]["bytes"]
        assert f"--kv-cache-memory-bytes={kv_bytes}" in arguments(world)
        assert after["measured"]["driftPercent"] == 0.0
        assert world.condition("BudgetDrift")["reason"] == "AsPlanned"

    async def test_a_measured_plan_that_does_not_fit_is_refused_and_the_pods_stay(self):
        world = await running(prepare=lambda w: setattr(w.engines, "activations_bytes", 70 * GIB))
        pods = uids(world)
        assert world.condition("Ready")["status"] == "True"

        world.apply(**next_rollout(budget={"kvCache": "30Gi"}))
        await world.run()

        assert world.condition("Ready")["reason"] == "BudgetTooSmall"
        assert uids(world) == pods

    async def test_a_term_that_the_user_fixed_is_the_users(self):
        world = await running(prepare=off_plan)
        world.apply(**next_rollout(budget={"kvCache": None, "activations": "20Gi"}))
        await world.run()
        assert planned(world)["perGpu"]["activations"]["bytes"] == 20 * GIB
        assert not any("--kv-cache-memory-bytes" in word for word in arguments(world))

    async def test_a_changed_engine_starts_from_estimates(self):
        world = await running(prepare=off_plan)
        for change in (
            {"image": "registry.local/vllm:next", "version": "0.32.0"},
            {"maxNumBatchedTokens": 4096},
        ):
            world.apply(**next_rollout(engine=change))
            await world.run()
            assert planned(world)["perGpu"]["activations"]["how"] == "estimated"


class TestKept:
    async def test_it_is_written_once_and_belongs_to_no_deployment(self):
        world = await running(prepare=off_plan)
        kept = world.api.objects[STORE]
        assert "ownerReferences" not in kept["metadata"]
        assert len(kept["data"]) == 1
        assert [name for *_, name in world.api.writes].count(STORE[2]) == 1

    async def test_another_deployment_of_the_same_engine_begins_with_it(self):
        world = await running(prepare=off_plan)
        measured = planned(world)["measured"]
        ref = world.apply("second", **{**PROFILED, "pools": {"unified": {"replicas": 1}}})
        await world.run()
        (entry,) = world.status(ref)["plan"]
        assert entry["kvBlocks"] == measured["kvBlocks"]

    async def test_two_deployments_that_learn_at_once_both_keep_it(self):
        world = World()
        world.node("a1", A100, 8)
        off_plan(world)
        world.engines.is_silent = True
        world.apply(**PROFILED)
        second = world.apply("second", **{**PROFILED, "engine": {"maxNumBatchedTokens": 4096}})
        await world.run()
        world.restart()
        await asyncio.gather(*(world.reconcile(ref) for ref in world.refs))
        world.engines.is_silent = False
        world.clock.pass_by(600)
        slow_down(world.api)

        await asyncio.gather(*(world.reconcile(ref) for ref in world.refs))

        assert len(world.api.objects[STORE]["data"]) == 2
        assert world.status(second)["plan"][0]["measured"]

    async def test_what_another_process_wrote_since_it_was_missing_is_kept(self):
        other = await running({**PROFILED, "engine": {"maxNumBatchedTokens": 4096}}, off_plan)
        theirs = other.api.applied[STORE]
        world = await running(prepare=lambda world: setattr(world.engines, "is_silent", True))
        assert world.memory.kept["default"].document is None, "it was looked for in vain"
        await world.api.apply(theirs)
        world.engines.is_silent = False
        world.clock.pass_by(600)
        await world.run()
        kept = world.api.objects[STORE]["data"]
        assert theirs["data"].keys() < kept.keys()

    async def test_it_is_remembered_while_the_namespace_has_a_deployment(self):
        world = await running(prepare=off_plan)
        second = world.apply("second", **PROFILED)
        await world.run_for(3)
        for ref, left in ((world.refs[0], {"default"}), (second, set())):
            world.api.remove(("LLMDeployment", ref.namespace, ref.name))
            await world.reconcile(ref)
            assert world.memory.kept.keys() == left

    async def test_another_namespace_knows_nothing_of_it(self):
        world = await running(prepare=off_plan)
        ref = world.apply("chat", "elsewhere", **PROFILED)
        await world.run()
        (entry,) = world.status(ref)["plan"]
        assert entry["perGpu"]["activations"]["how"] == "estimated"

    async def test_without_it_nothing_restarts_and_a_new_process_writes_it_again(self):
        world = await running(prepare=off_plan)
        pods = uids(world)
        kept = world.api.objects[STORE]["data"]
        world.api.remove(STORE)
        await world.run()
        world.restart()
        await world.run()
        assert uids(world) == pods
        assert world.api.objects[STORE]["data"].keys() == kept.keys()

    @pytest.mark.parametrize(
        "data",
        [None, {}, {"x": "y"}, {f"{'0' * 24}.{'0' * 12}": "{"}, {"k": "[" * 5000}],
        ids=["no data", "empty", "a key", "half an entry", "brackets"],
    )
    async def test_garbage_in_it_is_passed_over(self, data):
        world = await running(prepare=off_plan)
        document = {**world.api.objects[STORE]}
        document.pop("data")
        world.api.put({**document, **({} if data is None else {"data": data})})
        world.restart()
        world.apply(**next_rollout())
        await world.run()
        assert world.condition("Ready")["status"] == "True"
        assert planned(world)["measured"]["driftPercent"] is not None

    async def test_a_config_map_of_somebody_else_is_left_alone(self):
        def theirs(world):
            off_plan(world)
            metadata = {"name": STORE[2], "namespace": "default", "labels": {"team": "other"}}
            world.api.put({"kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})

        world = await running(prepare=theirs)
        assert world.api.objects[STORE]["data"] == {"a": "b"}
        assert world.condition("BudgetDrift")["status"] == "True"

    @pytest.mark.parametrize("status", [403, 409, 429, 500, None])
    async def test_a_write_that_fails_fails_no_pass(self, status):
        def refuse(world):
            off_plan(world)
            world.api.write_fault = lambda verb, document: (
                Fault(status) if document["metadata"]["name"] == STORE[2] else None
            )

        world = await running(prepare=refuse)
        attempts = world.api.attempts
        for _ in range(10):
            assert (await world.reconcile()).result == "settled"
        assert world.api.attempts - attempts <= (10 if status == 409 else 1)
        world.api.write_fault = lambda verb, document: None
        world.clock.pass_by(3600)
        await world.run()
        assert STORE in world.api.objects

    async def test_nothing_is_learnt_from_a_gpu_that_is_shared_by_time(self):
        world = World()
        world.node("a1", A100, 4, **{"nvidia.com/gpu.product": f"{A100}-SHARED"})
        off_plan(world)
        world.apply(**PROFILED)
        await world.run()
        assert planned(world)["measured"]["driftPercent"] < -5
        assert STORE not in world.api.objects


class TestHearing:
    async def test_one_pod_of_a_slice_is_asked_once(self):
        world = await running()
        await world.run_for(50)
        assert len(world.engines.asked) == 1

    async def test_another_start_of_its_engine_is_heard_again(self):
        world = await running()
        (name,) = set(world.engines.asked)
        pod = world.api.objects["Pod", "default", name]
        (container,) = pod["status"]["containerStatuses"]
        restarted = {**pod["status"], "containerStatuses": [{**container, "restartCount": 1}]}
        world.api.patch(("Pod", "default", name), status=restarted)
        for _ in range(5):
            await world.reconcile()
        assert len(world.engines.asked) == 2

    async def test_a_silent_engine_is_asked_less_and_less_and_the_plan_goes_on(self):
        world = await running(prepare=lambda world: setattr(world.engines, "is_silent", True))
        assert "measured" not in planned(world)
        assert world.condition("BudgetDrift")["reason"] == "NotMeasured"
        await world.run_for(600)
        assert 3 < len(world.engines.asked) < 10
        world.engines.is_silent = False
        world.clock.pass_by(600)
        await world.run()
        assert planned(world)["measured"]

    async def test_one_that_was_silent_for_weeks_is_still_asked_now_and_then(self):
        world = await running(prepare=lambda world: setattr(world.engines, "is_silent", True))
        (heard,) = world.memory.heard[world.refs[0]].values()
        heard.attempts = 5000
        for _ in range(3):
            asked = len(world.engines.asked)
            world.clock.pass_by(601)
            await world.reconcile()
            assert len(world.engines.asked) == asked + 1

    @pytest.mark.parametrize(
        "page", ["", "<html>", 'vllm:cache_config_info{num_gpu_blocks="NaN"} 1', "x" * 100_000]
    )
    async def test_a_page_that_tells_nothing_is_no_answer(self, page):
        world = World()
        world.node("a1", A100)
        world.engines.metrics = lambda pod: page
        world.apply(**PROFILED)
        await world.run()
        assert world.condition("Ready")["status"] == "True"
        assert "measured" not in planned(world)


DRIFT_AND_ITS_USE = (
    lambda world: world.apply(**PROFILED),
    lambda world: world.apply(**next_rollout()),
)


async def test_a_crash_after_any_write_leads_to_the_same_end():
    plain = World()
    plain.node("a1", A100)
    off_plan(plain)
    async for number, world in crashed(plain, DRIFT_AND_ITS_USE):
        assert world.shape() == plain.shape(), f"crash after write {number}"
    assert "--kv-cache-memory-bytes" in " ".join(arguments(plain))
