"""What is said of a resource before it is stored."""

import pytest

from tidegate.api.reasons import Reason
from tidegate.core.admission import Facts, Memo, review, wording
from tidegate.core.canary import needs

from .resources import a_resource, changed, reasons, seen, some_nodes

SMALL_CARD = "NVIDIA-L4"


def test_a_good_resource_is_let_in_without_a_word():
    found = review(None, a_resource(), seen())

    assert found.allowed
    assert (found.problems, found.warnings) == ((), ())


def test_every_fault_is_told_at_once_with_field_value_limit_and_fix():
    bad = a_resource(
        spec__kvCache={"dtype": "fp3"},
        spec__engine__env=[{"name": "LD_PRELOAD", "value": "x"}],
        spec__engine__extraArgs=["--model=evil"],
        spec__model__servedNames=["qw\u0435n"],
        spec__pools={"unified": {"tensorParallel": 3}},
    )
    found = review(None, bad, seen())

    assert reasons(found.problems) == {
        Reason.KV_DTYPE_UNSUPPORTED,
        Reason.ENV_RESERVED,
        Reason.FLAG_OWNED_BY_FIELD,
        Reason.LOOKALIKE_NAME,
        Reason.PARALLELISM_INVALID,
    }
    dtype = next(one for one in found.problems if one.reason == Reason.KV_DTYPE_UNSUPPORTED)
    assert (dtype.field, dtype.value) == ("spec.kvCache.dtype", "'fp3'")
    assert "has no KV cache type fp3" in dtype.limit
    assert "kvCache.dtype fp8" in dtype.fix


def test_what_the_form_hides_is_told_with_the_form():
    """A field of the wrong form is left out, and the rest is looked at all the same."""
    bad = a_resource(
        spec__engine__maxModelLen="long",
        spec__engine__env=[{"name": "A-B", "value": "c"}, {"name": "LD_PRELOAD", "value": "x"}],
        spec__model__servedNames=["\uff51\uff57\uff45\uff4e"],
    )
    found = review(None, bad, seen())

    assert {(str(one.reason), one.field) for one in found.problems} == {
        ("InvalidSpec", "spec.engine.maxModelLen"),
        ("InvalidSpec", "spec.engine.env[0].name"),
        ("EnvReserved", "spec.engine.env"),
        ("LookalikeName", "spec.model.servedNames[0]"),
    }


def test_a_variables_value_is_not_repeated_in_a_refusal():
    bad = a_resource(spec__engine__env=[{"name": "A", "value": "secret\0"}])
    told = wording.refusal(review(None, bad, seen()), "chat")

    assert "spec.engine.env[0].value" in told
    assert "secret" not in told


def test_what_nobody_knows_is_a_warning_and_no_refusal():
    found = review(None, a_resource(spec__model__id="Qwen/Qwen3-32B"), Facts())

    assert found.allowed
    assert reasons(found.warnings) == {Reason.NOT_CHECKED}


def test_a_config_that_is_known_to_be_missing_is_a_warning_since_all_may_come_at_once():
    bad = a_resource(spec__model__configRef={"name": "config", "key": "config.json"})
    found = review(None, bad, seen(config_texts={("config", "config.json"): None}))

    assert found.allowed
    assert reasons(found.warnings) == {Reason.REFERENCE_MISSING}


def test_a_config_that_is_known_is_what_the_resource_is_sized_by():
    bad = a_resource(spec__model__configRef={"name": "config", "key": "config.json"})
    found = review(None, bad, seen(config_texts={("config", "config.json"): "[]"}))

    assert reasons(found.problems) == {Reason.MODEL_CONFIG_INVALID}


@pytest.mark.parametrize(
    "change",
    [
        {"spec__pools": {"unified": {"replicas": 1}}},
        {"metadata__labels": {"a": "b"}},
        {"metadata__finalizers": None},
        {"spec__slo": {"timeToFirstToken": "1s"}},
    ],
)
def test_an_update_is_not_refused_for_a_fault_that_was_there_before(change):
    """The node with the large card was taken away: scaling down must stay possible."""
    old = a_resource(spec__model__id="Qwen/Qwen3-32B", metadata__finalizers=["x"])
    world = Facts(nodes=some_nodes(SMALL_CARD))
    assert not review(None, old, world).allowed

    found = review(old, changed(old, **change), world)

    assert found.allowed
    assert Reason.WEIGHTS_DO_NOT_FIT in reasons(found.warnings)


def test_an_update_is_refused_for_a_fault_that_it_brings():
    old = a_resource(spec__model__id="Qwen/Qwen3-32B")
    new = changed(old, spec__kvCache={"dtype": "fp3"})
    found = review(old, new, Facts(nodes=some_nodes(SMALL_CARD)))

    assert reasons(found.problems) == {Reason.KV_DTYPE_UNSUPPORTED}


def test_the_same_fault_with_another_value_is_a_new_one():
    old = a_resource(spec__engine__maxModelLen=-1)
    assert review(old, changed(old, spec__engine__maxModelLen=-1), seen()).allowed
    assert not review(old, changed(old, spec__engine__maxModelLen=-2), seen()).allowed


def test_a_resource_that_is_being_deleted_may_lose_its_finalizers_whatever_it_says():
    old = a_resource(spec__engine="broken", metadata__deletionTimestamp="2026-01-01T00:00:00Z")
    found = review(old, changed(old, metadata__finalizers=None), seen())

    assert found.allowed
    assert (found.patch, found.access) == ((), ())


def test_a_resource_without_a_name_of_its_own_is_checked_as_the_api_server_will_name_it():
    named = a_resource(metadata={"generateName": "chat-", "namespace": "team"})
    long = a_resource(metadata={"generateName": "c" * 60, "namespace": "team"})

    assert review(None, named, seen()).allowed
    assert {one.field for one in review(None, long, seen()).problems} == {"metadata.name"}


def test_a_memo_changes_no_answer_and_forgets_when_nodes_change():
    memo, document = Memo(), a_resource(spec__model__id="Qwen/Qwen3-32B")
    large, small = seen(), Facts(nodes=some_nodes(SMALL_CARD))

    for world in (large, small, large, large):
        assert review(None, document, world, memo) == review(None, document, world)


def test_what_a_canary_would_take_is_worked_out_once_for_the_same_nodes(monkeypatch):
    memo, world = Memo(), seen(nodes=some_nodes(gpus=2), can_judge=True)
    pools = {"unified": {"replicas": 2}}
    document = a_resource(spec__pools=pools, spec__rollout={"maxUnavailable": 0})
    first = review(None, document, world, memo)
    monkeypatch.setattr(needs, "of", None)

    assert Reason.CANARY_IMPOSSIBLE in reasons(first.warnings)
    assert review(None, document, world, memo) == first


def test_a_memo_is_bounded():
    memo, world = Memo(most=2), seen()
    for replicas in range(8):
        review(None, a_resource(spec__pools={"unified": {"replicas": replicas}}), world, memo)

    assert memo.size == 2


def test_thousands_of_faults_are_told_in_few_words():
    bad = a_resource(spec__pools={"unified": {f"unknown{n}": n for n in range(400)}})
    found = review(None, bad, seen())

    assert len(found.problems) == 33
    assert "more like these" in found.problems[-1].limit
    assert len(wording.refusal(found, "chat")) <= wording.LONGEST_REFUSAL


def test_warnings_keep_within_what_clients_show():
    old = a_resource()
    new = changed(
        old, spec__engine__image="vllm/vllm-openai:v0.33.0", spec__kvCache={"dtype": "k8v4"}
    )
    lines = wording.warnings(review(old, new, seen()))

    assert lines
    assert all(len(line) <= wording.LONGEST_WARNING for line in lines)
    assert sum(map(len, lines)) <= wording.MOST_WARNING_CHARACTERS


def test_no_line_of_an_answer_can_begin_another_line():
    bad = a_resource(spec__model__revision="main\r\nX: 1", spec__model__servedNames=["a\nb"])
    told = wording.refusal(review(None, bad, seen()), "chat").splitlines()

    assert len(told) == 3
    assert all(line.startswith("- InvalidSpec: spec.model") for line in told[1:])
