"""What is wrong is said, with what would help; what serves goes on serving."""

import json

import pytest

from .api_server import CRD, Fault
from .documents import CONFIG
from .scenarios import PAIR, image
from .world import A100, H100, Fate, World

BAD = "registry.local/vllm:bad"


async def serving(gpus: int = 4, **spec) -> World:
    world = World()
    world.node("a1", A100, gpus)
    world.apply(**spec)
    await world.run()
    return world


def templates(world: World):
    return {found["metadata"]["name"]: found["spec"] for found in world.deployments()}


@pytest.mark.parametrize(
    ("change", "reason", "parts"),
    [
        ({"pools": {"unified": {"replicas": -1}}}, "InvalidSpec", ["spec.pools.unified.replicas"]),
        ({"engine": {"maxModelLenn": 5}}, "InvalidSpec", ["spec.engine.maxModelLenn", "unknown"]),
        ({"model": {"id": "no/such", "config": None}}, "ModelUnknown", ["no/such", "configRef"]),
        ({"engine": {"image": "vllm:latest"}}, "EngineVersionUnknown", ["vllm:latest"]),
        ({"budget": {"kvCache": "1Mi"}}, "BudgetTooSmall", ["maxModelLen"]),
        ({"pools": {"unified": {"nodeSelector": {"x": "y"}}}}, "NoNodeClass", ["nodeSelector"]),
        ({"pools": {"unified": {"tensorParallel": 8}}}, None, []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_spec_that_cannot_work_stalls_and_leaves_the_pods_alone(change, reason, parts):
    world = await serving()
    before = templates(world)
    world.apply(**change)
    await world.run()
    stalled = world.condition("Stalled")
    assert stalled["status"] == "True"
    assert reason in (None, stalled["reason"])
    for part in parts:
        assert part in stalled["message"]
    assert world.condition("Ready")["status"] == "False"
    assert world.condition("Available")["status"] == "True"
    assert world.status()["observedGeneration"] == 2
    assert templates(world) == before
    assert len(world.ready("unified")) == 2
    world.apply()
    await world.run()
    assert world.condition("Ready")["status"] == "True"
    assert world.condition("Stalled")["status"] == "False"
    assert templates(world) == before, "going back restarts nothing"


async def test_a_missing_config_map_is_waited_for():
    world = await serving(
        model={"config": None, "configRef": {"name": "cfg", "key": "config.json"}}
    )
    assert world.condition("Ready")["reason"] == "ReferenceMissing"
    assert "cfg" in world.condition("Ready")["message"]
    assert world.condition("Reconciling")["status"] == "True"
    assert not world.deployments()
    metadata = {"name": "cfg", "namespace": "default"}
    data = {"config.json": json.dumps(CONFIG)}
    world.api.put({"kind": "ConfigMap", "metadata": metadata, "data": data})
    await world.run()
    assert world.condition("Ready")["status"] == "True"
    data = {"config.json": json.dumps({**CONFIG, "num_hidden_layers": 8})}
    before = world.status()["revision"]
    world.clock.pass_by(31)
    world.api.put({"kind": "ConfigMap", "metadata": metadata, "data": data})
    await world.run()
    assert world.status()["revision"] != before, "a changed model is a new revision"


async def test_an_index_of_the_weights_in_a_config_map_is_waited_for_and_read():
    world = await serving(model={"weights": {"indexRef": {"name": "weights", "key": "index"}}})
    assert "index.json" in world.condition("Ready")["message"]
    assert not world.deployments()
    layers = [f"model.layers.{index}.x.weight" for index in range(CONFIG["num_hidden_layers"])]

    async def put(total_bytes):
        index = {"metadata": {"total_size": total_bytes}, "weight_map": dict.fromkeys(layers, "f")}
        metadata = {"name": "weights", "namespace": "default"}
        data = {"index": json.dumps(index)}
        world.clock.pass_by(31)
        world.api.put({"kind": "ConfigMap", "metadata": metadata, "data": data})
        await world.run()

    async def read(total_bytes):
        await put(total_bytes)
        return world.status()["plan"][0]["perGpu"]["weights"]["bytes"]

    assert await read(2 * 2**30) - await read(2**30) == 2**30 // 2  # on each of two GPUs
    assert world.condition("Stalled")["status"] == "False"
    await put("much")
    assert world.condition("Stalled")["reason"] == "ModelConfigInvalid"
    assert "metadata.total_size" in world.condition("Stalled")["message"]


@pytest.mark.parametrize(
    ("change", "there", "said"),
    [
        (
            {"engine": {"env": [{"name": "X", "secretKeyRef": {"name": "s", "key": "k"}}]}},
            {"kind": "Secret", "metadata": {"name": "s"}, "data": {"k": ""}},
            "Secret s",
        ),
        (
            {
                "model": {
                    "source": {"persistentVolumeClaim": {"claimName": "models", "path": "tiny"}}
                }
            },
            {"kind": "PersistentVolumeClaim", "metadata": {"name": "models"}},
            "PersistentVolumeClaim models",
        ),
    ],
)
async def test_what_pods_need_is_waited_for_before_they_are_made(change, there, said):
    world = await serving(**change)
    assert world.condition("Ready")["reason"] == "ReferenceMissing"
    assert said in world.condition("Ready")["message"]
    assert not world.deployments()
    there["metadata"]["namespace"] = "default"
    world.api.put(there)
    world.clock.pass_by(10)
    await world.run()
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("kind", ["Service", "Deployment", "ServiceAccount"])
@pytest.mark.parametrize("owner", ["nobody", "a Helm release", "another deployment"])
async def test_an_object_of_somebody_else_is_never_taken_over(kind, owner):
    probe = await serving()
    name = next(key[2] for key in probe.api.objects if key[0] == kind)
    metadata = {"name": name, "namespace": "default"}
    if owner == "another deployment":
        metadata["labels"] = {"tidegate.io/deployment": "chat"}
        owners = [{"kind": CRD, "name": "other", "uid": "u-9", "controller": True}]
        metadata["ownerReferences"] = owners
    if owner == "a Helm release":
        owners = [{"kind": "HelmRelease", "name": "web", "uid": "u-8", "controller": True}]
        metadata["ownerReferences"] = owners
    world = World()
    world.node("a1")
    theirs = world.api.put({"kind": kind, "metadata": metadata, "spec": {"replicas": 0}})
    world.apply()
    await world.run_for(5)
    left = world.api.objects[kind, "default", name]
    assert left["spec"] == theirs["spec"]
    assert left["metadata"].get("ownerReferences") == theirs["metadata"].get("ownerReferences")
    assert len(world.api.writes) == 1, "only the status"
    stalled = world.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Conflict")
    whose = {"nobody": "nobody", "a Helm release": "HelmRelease web"}.get(owner, f"{CRD} other")
    assert f"{kind} {name}" in stalled["message"]
    assert whose in stalled["message"]
    world.api.remove((kind, "default", name))
    await world.run()
    assert world.condition("Ready")["status"] == "True"


async def test_objects_of_a_former_deployment_of_the_name_are_waited_for():
    world = World()
    world.node("a1")
    owners = [{"kind": CRD, "name": "chat", "uid": "former", "controller": True}]
    labels = {"tidegate.io/deployment": "chat"}
    metadata = {"name": "chat-unified", "namespace": "default", "ownerReferences": owners}
    world.api.put({"kind": "Service", "metadata": {**metadata, "labels": labels}})
    world.apply()
    await world.run_for(3)
    assert world.condition("Reconciling")["status"] == "True"
    assert "former deployment" in world.condition("Ready")["message"]
    world.api.remove(("Service", "default", "chat-unified"))
    await world.run()
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"kind": "Job", "name": "chat-1", "uid": "u-1", "controller": True}],
        [{"kind": "ReplicaSet", "name": "other-5d4f8c7b9", "uid": "u-2", "controller": True}],
    ],
    ids=["nobody's", "a Job's", "another Deployment's"],
)
async def test_a_pod_of_somebody_else_that_bears_our_labels_is_not_counted(owners):
    world = await serving()
    pod = world.ready("unified")[0]
    metadata = {**pod["metadata"], "name": "copy", "ownerReferences": owners}
    spec = {"containers": [{"name": "engine", "image": "copy:1"}]}
    world.api.put({**pod, "metadata": metadata, "spec": spec})
    world.apply(pools={"unified": {"replicas": 3}})
    await world.reconcile()
    assert world.status()["pods"] == "2/3"


@pytest.mark.parametrize("status", [403, 422])
async def test_a_policy_of_the_cluster_is_named_and_asked_again(status):
    world = World()
    world.node("a1")
    world.api.write_fault = lambda verb, document: (
        Fault(status) if document["kind"] == "Deployment" else None
    )
    world.apply()
    await world.run_for(4)
    stalled = world.condition("Stalled")
    assert stalled["reason"] == "ApplyRefused"
    assert "Deployment" in stalled["message"]
    world.api.write_fault = lambda verb, document: None
    await world.run()
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize(
    ("fate", "reason"),
    [
        (Fate(2, "vllm: error: unrecognized arguments: --foo-bar 1"), "EngineFlagUnknown"),
        (Fate(0, "INFO:     Application startup complete."), "EngineCrashed"),
        (Fate(waiting="ImagePullBackOff"), "ImagePullFailed"),
        (Fate(waiting="CreateContainerConfigError"), "ContainerConfigInvalid"),
    ],
)
async def test_a_revision_that_does_not_start_is_explained_while_the_old_one_serves(fate, reason):
    world = await serving(gpus=2)
    world.fates[BAD] = fate
    world.least_ready = {"unified": 2}
    world.apply(engine={"image": BAD, "version": "0.32.0"})
    await world.run_for(20)
    assert world.condition("Ready")["reason"] == reason
    assert world.condition("Available")["status"] == "True"
    assert world.least_ready["unified"] == 1
    world.apply()
    await world.run()
    assert world.condition("Ready")["status"] == "True"


async def test_a_log_is_fetched_once_for_each_end_of_a_container():
    world = World()
    world.node("a1")
    world.fates[BAD] = Fate(1, "odd")
    world.apply(engine={"image": BAD, "version": "0.32.0"})
    await world.run_for(30)
    logs = [read for read in world.api.reads if read[0] == "log"]
    assert len(logs) == 2, "two pods, each of which ended once"


async def crashing(replicas: int) -> World:
    """A deployment whose engines have all ended, seen by a process that has read no log yet."""
    world = World()
    world.node("a1", A100, replicas)
    world.fates[BAD] = Fate(2, "vllm: error: unrecognized arguments: --foo-bar 1")
    engine = {"image": BAD, "version": "0.32.0"}
    world.apply(engine=engine, pools={"unified": {"replicas": replicas}})
    await world.run_for(10)
    world.restart()
    world.api.reads.clear()
    return world


def logs_read(world: World) -> int:
    return [read[0] for read in world.api.reads].count("log")


async def test_many_logs_are_read_over_several_passes():
    world = await crashing(8)
    counts = []
    for _ in range(4):
        await world.reconcile()
        counts.append(logs_read(world))
    assert counts == [3, 6, 8, 8]


async def test_a_log_that_cannot_be_read_holds_up_one_pass_in_30_s_and_is_no_empty_log():
    world = await crashing(4)
    world.api.read_fault = lambda kind, name: kind == "Pod"
    counts = []
    for seconds in (0, 1, 28, 2):
        world.clock.pass_by(seconds)
        await world.reconcile()
        counts.append(logs_read(world))
    assert counts == [1, 1, 1, 2]
    world.api.read_fault = lambda kind, name: False
    world.clock.pass_by(31)
    await world.reconcile()
    assert world.condition("Ready")["reason"] == "EngineFlagUnknown"


async def test_a_standstill_is_reported_after_the_deadline_and_ends_with_a_good_spec():
    world = await serving(gpus=2)
    world.fates[BAD] = Fate(1, "odd")
    world.apply(engine={"image": BAD, "version": "0.32.0"}, rollout={"progressDeadline": "60s"})
    await world.run_for(80)
    assert world.condition("Stalled")["reason"] == "ProgressDeadlineExceeded"
    assert world.condition("Reconciling")["status"] == "False"
    world.apply()
    await world.run()
    assert world.condition("Ready")["status"] == "True"


async def test_too_few_gpus_is_told_by_resource_and_number_of_nodes():
    world = await serving(gpus=1)
    ready = world.condition("Ready")
    assert ready["reason"] == "Unschedulable"
    assert "of 1 nodes 1 have too little nvidia.com/gpu free" in ready["message"]


async def test_no_room_to_roll_is_said_with_the_numbers():
    world = await serving(gpus=2, rollout={"maxUnavailable": 0})
    world.apply(engine=image("next"), rollout={"maxUnavailable": 0})
    await world.run_for(5)
    stalled = world.condition("Stalled")
    assert stalled["reason"] == "NoRoomToRoll"
    assert "2 of 2 must stay ready" in stalled["message"]
    world.node("a2", A100, 2)
    await world.run()
    assert world.condition("Ready")["status"] == "True"


async def test_transitions_are_events_and_rest_is_none():
    world = await serving()
    assert [event[:2] for event in world.api.events] == [
        ("Normal", "PodsStarting"),
        ("Normal", "PodsReady"),
    ]
    world.apply(pools={"unified": {"replicas": -1}})
    await world.run()
    assert world.api.events[-1][:2] == ("Warning", "InvalidSpec")
    count = len(world.api.events)
    await world.run_for(10)
    assert len(world.api.events) == count


async def test_a_status_that_cannot_be_read_is_replaced():
    world = await serving()
    key = (CRD, "default", "chat")
    world.api.patch(key, status={"conditions": "broken", "plan": []})
    await world.run()
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("unknown", ["plan", "conditions", "kvTokens"])
async def test_a_status_that_an_older_crd_drops_is_not_written_at_every_pass(unknown):
    world = World()
    world.node("a1")
    world.api.unknown_status = (unknown,)
    world.apply()
    await world.run()
    attempts, events = world.api.attempts, len(world.api.events)
    await world.run_for(20)
    assert unknown not in world.status()
    assert (world.api.attempts, len(world.api.events)) == (attempts, events)
    world.apply(pools={"unified": {"replicas": 1}})
    await world.run()
    assert world.status()["pods"] == "1/1", "what is known is told as ever"


@pytest.mark.parametrize(
    ("status", "result"),
    [(409, "stale"), (403, "failed"), (422, "failed"), (500, "failed"), (None, "failed")],
)
async def test_a_status_that_cannot_be_written_is_told_by_the_pass_with_the_cause(status, result):
    world = World()
    world.node("a1")
    world.api.write_fault = lambda verb, document: Fault(status) if verb == "status" else None
    world.apply()
    outcome = await world.reconcile()
    assert outcome.result == result
    assert "LLMDeployment chat" in outcome.why
    assert outcome.requeue_seconds == {"stale": 1.0, "failed": 5.0}[result]


async def test_a_pass_says_what_stood_in_its_way():
    world = await serving()
    assert (await world.reconcile()).why == ""
    world.api.read_fault = lambda kind, name: kind == CRD
    world.apply(engine=image("next"))
    failed = await world.reconcile()
    assert (failed.result, failed.why) == ("failed", f"{CRD} chat: no answer")
    world.apply(pools={"unified": {"replicas": -1}})
    refused = await world.reconcile()
    assert refused.result == "refused"
    assert "spec.pools.unified.replicas" in refused.why


async def test_a_pair_says_both_pools():
    world = World()
    world.node("a1", A100)
    world.node("h1", H100)
    world.apply(pools=PAIR)
    await world.run()
    assert world.status()["pods"] == "prefill 1/1, decode 2/2"
    assert world.status()["mode"] == "PrefillDecode"


async def test_what_may_disappoint_is_told_in_the_status_and_nothing_waits_for_it():
    lengths = {"promptTokens": {"p95": 1000}, "outputTokens": {"p95": 1000}}
    world = await serving(engine={"maxNumSeqs": 100}, workload=lengths)

    [line] = world.status()["warnings"]
    assert line.startswith("PreemptionLikely")
    assert "engine.maxNumSeqs 32 fits" in line
    assert world.ready("unified")


async def test_an_offload_that_the_pods_may_not_have_stalls_with_the_number_that_they_may():
    world = await serving()
    before = templates(world)
    limits = {"resources": {"limits": {"memory": "8Gi"}}}
    world.apply(pools={"unified": limits}, kvCache={"offload": {"cpu": "64Gi"}})
    await world.run()

    assert world.condition("Stalled")["reason"] == "OffloadTooLarge"
    assert "memory limit of 8Gi" in world.condition("Stalled")["message"]
    assert templates(world) == before
