"""The engine pod: it passes Pod Security `restricted`, starts slowly, ends gently, lands right."""

import pytest

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.errors import Refused

from . import deployments
from .deployments import container, of_kind, pod

CLAIM = {"persistentVolumeClaim": {"claimName": "models", "path": "qwen"}}
EVERY_KIND_OF_POD = [
    (deployments.spec(), "unified"),
    (deployments.pair(), "prefill"),
    (deployments.pair(), "decode"),
    (deployments.spec(model={"source": CLAIM}), "unified"),
]


@pytest.mark.parametrize(("asked", "pool"), EVERY_KIND_OF_POD)
def test_pod_security_restricted_admits_it(asked, pool):
    found, (engine,) = pod(asked, pool), pod(asked, pool)["containers"]

    for key in ("hostNetwork", "hostPID", "hostIPC", "initContainers", "ephemeralContainers"):
        assert key not in found
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["runAsUser"] != 0
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert engine["securityContext"]["allowPrivilegeEscalation"] is False
    assert engine["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not any("hostPort" in port for port in engine["ports"])
    for volume in found["volumes"]:
        assert {*volume} - {"name"} <= {"emptyDir", "persistentVolumeClaim"}


@pytest.mark.parametrize(("asked", "pool"), EVERY_KIND_OF_POD)
def test_the_pod_has_no_token_no_service_links_and_a_root_that_cannot_be_written(asked, pool):
    found = pod(asked, pool)

    assert found["automountServiceAccountToken"] is False
    assert found["enableServiceLinks"] is False
    assert container(asked, pool)["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {
        m["mountPath"] for m in container(asked, pool)["volumeMounts"] if "readOnly" not in m
    }
    assert writable == {"/tmp", "/cache", "/dev/shm"}


@pytest.mark.parametrize(("asked", "pool"), EVERY_KIND_OF_POD)
def test_every_mount_has_its_volume(asked, pool):
    volumes = {volume["name"] for volume in pod(asked, pool)["volumes"]}

    assert {mount["name"] for mount in container(asked, pool)["volumeMounts"]} == volumes


def test_a_claim_with_models_is_only_read():
    asked = deployments.spec(model={"source": CLAIM})

    volume = next(v for v in pod(asked)["volumes"] if v["name"] == "models")
    mount = next(m for m in container(asked)["volumeMounts"] if m["name"] == "models")
    assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert mount == {"name": "models", "mountPath": "/models", "readOnly": True}


@pytest.mark.parametrize(("tensor_parallel", "size"), [(1, "2Gi"), (4, "5Gi"), (8, "9Gi")])
def test_shared_memory_grows_with_the_processes_that_use_it(tensor_parallel, size):
    asked = deployments.spec(pools={"unified": {"tensorParallel": tensor_parallel}})

    volume = next(v for v in pod(asked)["volumes"] if v["name"] == "shared-memory")
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": size}


def test_gpus_are_tensor_times_pipeline_parallel_beside_the_users_resources():
    resources = {"requests": {"cpu": "4"}, "limits": {"memory": "32Gi"}}
    pool = {"tensorParallel": 4, "pipelineParallel": 2, "resources": resources}

    assert container(deployments.spec(pools={"unified": pool}))["resources"] == {
        "requests": {"cpu": "4"},
        "limits": {"memory": "32Gi", "nvidia.com/gpu": "8"},
    }


# ------------------------------------------------------------------ start, life and end


def _patience_seconds(probe):
    return probe["periodSeconds"] * probe["failureThreshold"]


def test_a_load_of_thirty_minutes_is_survived_and_ends_within_the_rollouts_deadline():
    start = _patience_seconds(container(deployments.spec())["startupProbe"])

    assert 30 * 60 < start < deployments.spec().rollout.progress_deadline


def test_a_busy_engine_is_not_killed_and_a_hung_one_is():
    liveness = container(deployments.spec())["livenessProbe"]

    assert 2 * 60 <= _patience_seconds(liveness) <= 5 * 60
    assert liveness["terminationGracePeriodSeconds"] <= 30


def test_a_busy_engine_keeps_its_endpoint_through_a_step_of_some_seconds():
    readiness = container(deployments.spec())["readinessProbe"]

    assert _patience_seconds(readiness) >= 30


def _ending(asked: LLMDeploymentSpec, pool: str) -> tuple[int, int, int]:
    pre_stop = container(asked, pool)["lifecycle"]["preStop"]["sleep"]["seconds"]
    shutdown = int(deployments.flag_values(asked, pool)["--shutdown-timeout"])
    return pre_stop, shutdown, pod(asked, pool)["terminationGracePeriodSeconds"]


@pytest.mark.parametrize(("asked", "pool"), EVERY_KIND_OF_POD)
def test_grace_holds_the_wait_the_drain_and_the_teardown(asked, pool):
    pre_stop, shutdown, grace = _ending(asked, pool)

    assert grace > pre_stop + shutdown + 10


@pytest.mark.parametrize("lease", ["6s", "30s", "10m"])
def test_a_prefill_pod_outlives_the_leases_that_it_gave(lease):
    asked = deployments.pair(kvCache={"transfer": {"lease": lease}})

    pre_stop, _, grace = _ending(asked, "prefill")
    assert pre_stop >= max(10, asked.kv_cache.transfer.lease)
    assert grace > pre_stop + 10


def test_an_answer_has_longer_to_end_than_a_prompt():
    asked = deployments.pair()

    assert _ending(asked, "decode")[1] > _ending(asked, "prefill")[1]


def test_the_probes_meet_the_port_that_the_engine_listens_on():
    found = container(deployments.spec())

    (http,) = (port for port in found["ports"] if port["name"] == "http")
    assert str(http["containerPort"]) == deployments.flag_values(deployments.spec())["--port"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert found[probe]["httpGet"] == {"path": "/health", "port": "http"}


# ------------------------------------------------------------------ where it lands


def test_a_slice_lands_on_its_class_alone_and_where_the_pool_allows():
    pool = {
        "nodeSelector": {"zone": "a"},
        "nodeAffinity": [
            {"key": "spot", "operator": "DoesNotExist"},
            {"key": "rack", "operator": "In", "values": ["1", "2"]},
        ],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    asked = deployments.spec(pools={"unified": pool})

    found = pod(asked)
    required = found["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    class_labels = deployments.node_class().requirements
    assert term["matchExpressions"] == [
        *({"key": k, "operator": "In", "values": [v]} for k, v in class_labels),
        {"key": "spot", "operator": "DoesNotExist"},
        {"key": "rack", "operator": "In", "values": ["1", "2"]},
    ]
    assert found["nodeSelector"] == {"zone": "a"}
    assert found["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_pods_spread_over_nodes_without_waiting_for_it():
    (constraint,) = pod(deployments.spec())["topologySpreadConstraints"]

    assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    assert constraint["topologyKey"] == "kubernetes.io/hostname"


def test_nothing_that_was_not_asked_for_is_written():
    found = pod(deployments.spec())

    optional = ("priorityClassName", "runtimeClassName", "schedulerName", "imagePullSecrets")
    assert not {*optional, "nodeSelector", "tolerations"} & {*found}


def test_the_pod_template_is_merged():
    template = {
        "labels": {"team": "a"},
        "annotations": {"example.com/x": "y"},
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "schedulerName": "volcano",
    }
    asked = deployments.spec(
        pools={"unified": {"podTemplate": template}},
        engine={"imagePullSecrets": ["registry"]},
    )

    (deployment,) = of_kind(deployments.rendered(asked), "Deployment")
    metadata = deployment["spec"]["template"]["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"] == {"example.com/x": "y"}
    found = pod(asked)
    assert found["priorityClassName"] == "high"
    assert found["runtimeClassName"] == "nvidia"
    assert found["schedulerName"] == "volcano"
    assert found["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize(
    "template",
    [
        {"labels": {"tidegate.io/pool": "other"}},
        {"labels": {"app.kubernetes.io/component": "gate"}},
        {"labels": {"pod-template-hash": "x"}},
        {"annotations": {"tidegate.io/applied": "x"}},
    ],
)
def test_a_label_that_selectors_rely_on_is_refused(template):
    asked = deployments.spec(pools={"unified": {"podTemplate": template}})

    with pytest.raises(Refused) as caught:
        deployments.rendered(asked)

    assert caught.value.reason == Reason.LABEL_RESERVED
    assert caught.value.field == "spec.pools.unified.podTemplate"
    (key,) = next(iter(template.values()))
    assert key in caught.value.message


@pytest.mark.parametrize(
    ("asked", "pool", "size"),
    [
        (deployments.spec(kvCache={"offload": {"cpu": "64Gi"}}), "unified", "66Gi"),
        (deployments.spec(kvCache={"offload": {"cpu": "512Mi"}}), "unified", "2560Mi"),
        (deployments.pair(kvCache={"offload": {"cpu": "8Gi"}}), "decode", "10Gi"),
    ],
)
def test_offloaded_kv_has_room_in_dev_shm_where_the_engine_keeps_it(asked, pool, size):
    volume = next(v for v in pod(asked, pool)["volumes"] if v["name"] == "shared-memory")

    assert volume["emptyDir"]["sizeLimit"] == size
