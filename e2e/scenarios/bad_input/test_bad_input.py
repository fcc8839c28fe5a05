"""What a mistake gets: a clear word at once, and no harm to what runs."""

import json
from pathlib import Path

import pytest
import yaml
from e2e import llmd
from e2e.kube import wait_until
from e2e.llmd import Llmd, merged

FILE = Path(__file__).with_name("engine.yaml")
WORD_SECONDS = 30.0
LONGEST_NAME = "a" + "-long" * 12 + "er"


def changed(name, change):
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    document["metadata"]["name"] = name
    document["spec"] = merged(document["spec"], change)
    return yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"engine": {"maxModelLength": 1}}, 'unknown field "spec.engine.maxModelLength"'),
        ({"engine": {"maxModelLen": 0}}, "spec.engine.maxModelLen"),
        ({"engine": {"maxModelLen": "long"}}, "spec.engine.maxModelLen"),
        ({"budget": {"kvCache": "8 MB"}}, "spec.budget.kvCache"),
        ({"pools": {"prefill": {"replicas": 1}}}, "set unified, or both prefill and decode"),
        ({"rollout": {"maxSurge": 0, "maxUnavailable": 0}}, "can't both be 0"),
    ],
)
def test_kubectl_refuses_a_field_that_is_wrong(kube, shared_namespace, change, words):
    text = changed("refused", change)

    answer = kube.try_kubectl("apply", "-n", shared_namespace, "-f", "-", text=text)

    assert answer.returncode != 0
    assert words in answer.stderr
    assert kube.find("llmdeployments", shared_namespace, "refused") is None


def test_a_name_that_is_too_long_for_a_service_is_refused(kube, shared_namespace):
    text = changed(LONGEST_NAME + "x", {})

    answer = kube.try_kubectl("apply", "-n", shared_namespace, "-f", "-", text=text)

    assert answer.returncode != 0
    assert "63 characters" in answer.stderr


CANNOT_BE_PLANNED = [
    (
        {"budget": {"kvCache": "64Ki"}},
        {"budget": {"kvCache": "8Mi"}},
        "BudgetTooSmall",
        ("2048", "maxModelLen"),
    ),
    (
        {"engine": {"extraArgs": ["--max_model_len=4096"]}},
        {"engine": {"extraArgs": []}},
        "FlagOwnedByField",
        ("engine.maxModelLen",),
    ),
    (
        {"engine": {"version": "0.1.0"}},
        {"engine": {"version": "0.32.0"}},
        "EngineVersionUnknown",
        ("0.1.0", "0.32.0"),
    ),
    (
        {"model": {"config": {"model_type": "bailing_hybrid"}}},
        {"model": {"config": {"model_type": "llama"}}},
        "ModelNotSized",
        ("bailing_hybrid",),
    ),
    (
        {"pools": {"unified": {"nodeSelector": {"zone": "mars"}}}},
        {"pools": {"unified": {"nodeSelector": {"zone": None}}}},
        "NoNodeClass",
        ("unified", "nodeSelector"),
    ),
    (
        {"pools": {"unified": {"tensorParallel": 3}}},
        {"pools": {"unified": {"tensorParallel": 1}}},
        "ParallelismInvalid",
        ("3",),
    ),
    (
        {"pools": {"unified": {"tensorParallel": 4, "pipelineParallel": 2}}},
        {"pools": {"unified": {"tensorParallel": 1, "pipelineParallel": 1}}},
        "NodeTooSmall",
        ("needs 8 GPUs", "has 4"),
    ),
]
"""A change, what takes it back, the reason why it is refused, and words of the message."""


def cannot_be_planned(*arguments):
    return pytest.mark.parametrize(
        arguments,
        CANNOT_BE_PLANNED,
        ids=lambda value: value if isinstance(value, str) else "",
    )


@pytest.fixture(scope="module")
def reviewed(kube, make_namespace) -> str:
    """A namespace whose resources the webhook reviews, as it does by default."""
    return make_namespace("reviewed")


@cannot_be_planned("change", "back", "reason", "words")
def test_a_spec_that_cannot_be_planned_is_refused_at_the_door(
    kube, reviewed, change, back, reason, words
):
    words_of_kubectl = ("apply", "-n", reviewed, "-f", "-")

    refused = kube.try_kubectl(*words_of_kubectl, text=changed("door", change))
    mended = kube.try_kubectl(
        *words_of_kubectl, "--dry-run=server", text=changed("door", merged(change, back))
    )

    assert refused.returncode != 0
    assert f"{reason}: " in refused.stderr
    assert kube.find("llmdeployments", reviewed, "door") is None
    assert mended.returncode == 0, mended.stderr


def test_what_does_not_fit_is_let_in_where_it_says_so_and_held(kube, reviewed):
    change = {"pools": {"unified": {"tensorParallel": 4, "pipelineParallel": 2}}}
    document = yaml.safe_load(changed("early", change))
    document["metadata"]["annotations"] = {"tidegate.io/admission": "Warn"}

    answer = kube.try_kubectl("apply", "-n", reviewed, "-f", "-", text=yaml.safe_dump(document))
    held = Llmd(kube, reviewed, "early")
    held.wait_for("Stalled", "True", "NodeTooSmall", WORD_SECONDS)
    pods = held.pods()
    held.delete()  # or it takes the GPUs of larger nodes, once there are some

    assert answer.returncode == 0, answer.stderr
    assert "Warning: NodeTooSmall: " in answer.stderr
    assert pods == []


@pytest.fixture(scope="module")
def unreviewed(kube, shared_namespace) -> str:
    """A namespace that the webhook is not asked about: what slips past, the operator holds."""
    kube.kubectl("label", "namespace", shared_namespace, "tidegate.io/admission=skip")
    return shared_namespace


@pytest.fixture(scope="module")
def running(kube, unreviewed) -> Llmd:
    """A deployment that runs, and whose spec is then changed for the worse."""
    deployment = llmd.apply(kube, unreviewed, FILE, "running")
    deployment.wait_ready()
    return deployment


@cannot_be_planned("change", "back", "reason", "words")
def test_a_spec_that_cannot_be_planned_leaves_the_pods_alone(running, change, back, reason, words):
    uids = running.uids()

    running.patch(change)
    stalled = running.wait_for("Stalled", "True", reason, WORD_SECONDS)

    assert all(word in stalled["message"] for word in words), stalled["message"]
    assert running.condition("Ready")["status"] == "False"
    assert running.condition("Available")["status"] == "True", "its pods still serve"
    assert running.uids() == uids

    running.patch(back)
    running.wait_ready(WORD_SECONDS)
    assert running.uids() == uids, "the former spec is what already runs"


def test_a_config_map_that_comes_later(kube, namespace):
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))["spec"]["model"]["config"]
    reference = {"name": "tiny-config", "key": "config.json"}
    change = {"model": {"config": None, "configRef": reference}}
    deployment = llmd.apply(kube, namespace, FILE, "no-config", change)

    ready = deployment.wait_for("Ready", "False", "ReferenceMissing", WORD_SECONDS)
    assert "tiny-config" in ready["message"]
    assert deployment.condition("Stalled")["status"] == "False", "it waits, it has not given up"

    words = ("create", "configmap", "tiny-config", "-n", namespace)
    kube.kubectl(*words, f"--from-literal=config.json={json.dumps(config)}")
    deployment.wait_ready()


def test_a_secret_that_comes_later(kube, namespace):
    token = {"name": "hub", "key": "token"}
    change = {"model": {"source": {"huggingFace": {"tokenSecretRef": token}}}}
    deployment = llmd.apply(kube, namespace, FILE, "no-secret", change)

    ready = deployment.wait_for("Ready", "False", "ReferenceMissing", WORD_SECONDS)
    assert "the Secret hub" in ready["message"]
    assert deployment.pods() == [], "no pod is made that could not start"

    words = ("create", "secret", "generic", "hub", "-n", namespace)
    kube.kubectl(*words, "--from-literal=token=secret")
    deployment.wait_ready()


def test_a_service_of_the_same_name_is_never_taken_over(kube, namespace):
    kube.kubectl(
        *("create", "service", "clusterip", "taken-unified", "--tcp=80:80"),
        *("-n", namespace),
    )
    before = kube.get("services", namespace, "taken-unified")
    deployment = llmd.apply(kube, namespace, FILE, "taken")

    stalled = deployment.wait_for("Stalled", "True", "Conflict", WORD_SECONDS)
    assert "Service taken-unified" in stalled["message"]
    assert kube.get("services", namespace, "taken-unified") == before
    assert deployment.pods() == []

    kube.kubectl("delete", "service", "taken-unified", "-n", namespace)
    deployment.wait_ready()
    assert "taken-unified" in {child["metadata"]["name"] for child in deployment.children()}


def test_the_longest_name_works(kube, namespace):
    assert len(LONGEST_NAME) == 63
    deployment = llmd.apply(kube, namespace, FILE, LONGEST_NAME)

    deployment.wait_ready()

    assert all(len(child["metadata"]["name"]) <= 63 for child in deployment.children())


def test_one_name_in_two_namespaces_is_two_deployments(kube, shared_namespace, namespace):
    twins = [llmd.apply(kube, place, FILE, "twin") for place in (shared_namespace, namespace)]
    for twin in twins:
        twin.wait_ready()

    twins[0].patch({"pools": {"unified": {"replicas": 0}}})
    wait_until("the first has no pods", lambda: not twins[0].pods(), 60)

    assert len(twins[1].pods()) == 1
    assert twins[1].wait_ready()["pods"] == "1/1"
    twins[0].wait_for("Ready", "True", "ScaledToZero", WORD_SECONDS)
