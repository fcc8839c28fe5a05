"""What a resource names is asked for in the name of whoever writes it."""

from tidegate.api.reasons import Reason
from tidegate.core.admission import AccessQuestion, review

from .resources import a_resource, changed, seen

PODS = AccessQuestion("create", "pods", "team")
FULL = {
    "spec__model__source": {"huggingFace": {"tokenSecretRef": {"name": "hf", "key": "token"}}},
    "spec__model__configRef": {"name": "config", "key": "config.json"},
    "spec__engine__imagePullSecrets": ["pull"],
    "spec__engine__env": [
        {"name": "A", "secretKeyRef": {"name": "hf", "key": "other"}},
        {"name": "B", "secretKeyRef": {"name": "more", "key": "a"}},
    ],
}


def asked(old, new):
    return {
        (one.verb, one.resource, one.namespace, one.name) for one in review(old, new, seen()).access
    }


def test_creation_asks_for_pods_and_for_each_object_once():
    assert asked(None, a_resource(**FULL)) == {
        ("create", "pods", "team", ""),
        ("get", "secrets", "team", "hf"),
        ("get", "secrets", "team", "pull"),
        ("get", "secrets", "team", "more"),
        ("get", "configmaps", "team", "config"),
    }


def test_a_claim_is_asked_for():
    source = {"persistentVolumeClaim": {"claimName": "models", "path": "a"}}

    assert ("get", "persistentvolumeclaims", "team", "models") in asked(
        None, a_resource(spec__model__source=source)
    )


def test_an_index_of_the_weights_is_asked_for():
    weights = {"indexRef": {"name": "weights", "key": "index.json"}}

    assert ("get", "configmaps", "team", "weights") in asked(
        None, a_resource(spec__model__weights=weights)
    )


def test_an_update_asks_only_for_what_it_adds():
    old = a_resource(**FULL)
    new = changed(old, spec__engine__imagePullSecrets=["pull", "second"])

    assert asked(old, new) == {("create", "pods", "team", ""), ("get", "secrets", "team", "second")}


def test_who_has_gates_check_keys_must_be_allowed_to_read_them():
    keys = {"spec__gate__keysSecretRef": {"name": "clients", "key": "keys.json"}}
    old, new = a_resource(), a_resource(**keys)
    off = a_resource(**keys, spec__gate__enabled=False)

    assert ("get", "secrets", "team", "clients") in asked(old, new)
    assert ("get", "secrets", "team", "clients") not in asked(old, off)


def test_scaling_asks_nothing():
    """An autoscaler may scale, and neither read Secrets nor create pods."""
    old = a_resource(**FULL)

    assert asked(old, changed(old, spec__pools={"unified": {"replicas": 5}})) == set()


def test_a_resource_that_cannot_be_read_asks_nothing():
    assert asked(None, a_resource(spec__engine__maxModelLen="x", **FULL)) == set()


def test_a_refusal_names_who_what_and_where():
    question = next(q for q in review(None, a_resource(**FULL), seen()).access if q.name == "hf")
    told = question.denied("system:serviceaccount:team:ci")

    assert told.reason == Reason.ACCESS_DENIED
    assert told.field == "spec.model.source.huggingFace.tokenSecretRef"
    assert told.limit.startswith("system:serviceaccount:team:ci may not get secrets hf")


def test_the_key_of_an_answer_leaves_out_what_is_no_part_of_the_question():
    assert PODS.key == AccessQuestion("create", "pods", "team", field="other").key
