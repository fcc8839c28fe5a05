"""Reading whole documents: what is said of what cannot be read."""

import datetime
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.api import cases

from tidegate.api import llmdeployment
from tidegate.errors import Invalid


def problems_of(document):
    with pytest.raises(Invalid) as refusal:
        llmdeployment.parse(document)
    return {problem.field: problem.message for problem in refusal.value.problems}


@pytest.mark.parametrize("document", [None, "text", 3, [], [{}], {1: 2}, {None: {}}])
def test_what_is_no_document_is_refused_as_such(document):
    assert problems_of(document) == {
        "document": "must be a mapping with apiVersion, kind, metadata and spec"
    }


def test_an_empty_document_lacks_every_part():
    assert set(problems_of({})) == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.parametrize("document", [{}, {"spec": None}])
def test_a_document_without_a_spec_says_so(document):
    with pytest.raises(Invalid, match="spec: required field is missing"):
        llmdeployment.parse_spec(document)


def test_a_spec_alone_is_told_its_problems_by_the_whole_path():
    with pytest.raises(Invalid, match=r"spec\.engine\.image: must be text"):
        llmdeployment.parse_spec(cases.changed({"spec.engine.image": 3}))


def test_another_kind_is_told_which_one_is_read():
    found = problems_of({**cases.base(), "kind": "Deployment", "apiVersion": "apps/v1"})

    assert found == {
        "kind": "must be 'LLMDeployment'",
        "apiVersion": "must be 'tidegate.io/v1alpha1'",
    }


@pytest.mark.parametrize("metadata", [None, [], "name", 3])
def test_metadata_that_is_no_mapping_is_refused(metadata):
    assert "metadata" in problems_of({**cases.base(), "metadata": metadata})


@pytest.mark.parametrize("name", [3, True, None, datetime.date(2026, 1, 1), ["a"]])
def test_a_name_that_yaml_does_not_read_as_text_is_refused(name):
    assert "metadata.name" in problems_of(cases.changed({"metadata.name": name}))


def test_every_problem_is_reported_at_once():
    found = problems_of(
        cases.changed(
            {
                "metadata.name": "Chat",
                "spec.model.id": "a\nb",
                "spec.engine.maxModelLen": "32k",
                "spec.budget": {"kvCache": "many"},
                "spec.pools": {"unified": {"replicas": -1}, "decode": {"tensorParallel": 0}},
            }
        )
    )

    assert set(found) == {
        "metadata.name",
        "spec.model.id",
        "spec.engine.maxModelLen",
        "spec.budget.kvCache",
        "spec.pools.unified.replicas",
        "spec.pools.decode.tensorParallel",
    }


def test_numbers_that_json_does_not_know_are_refused():
    document = yaml.safe_load("{spec: {budget: {safetyLine: .nan, kvCache: .inf}}}")
    found = problems_of(cases.changed({"spec.budget": document["spec"]["budget"]}))

    assert found["spec.budget.safetyLine"] == "must be a finite number"
    assert found["spec.budget.kvCache"].startswith("must be a size")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (yaml.safe_load("{released: 2026-01-01}"), "a date at 'released'; put it in quotes"),
        ({"a": [1, {"b": float("nan")}]}, "no finite number at 'a[1].b'"),
        ({"a": {1: 2}}, "the key 1"),
        ({"a": b"bytes"}, "a bytes at 'a'"),
        ({"a": "x" * 20_000}, "more than 16384 characters"),
        ({"a": [0] * 30_000}, "too large"),
        ({str(number): 0 for number in range(600)}, "at most 512 keys"),
    ],
)
def test_a_config_that_is_no_json_or_too_large_is_refused(config, says):
    assert says in problems_of(cases.changed({"spec.model.config": config}))["spec.model.config"]


def test_a_config_nested_a_hundred_thousand_deep_is_refused_and_breaks_nothing():
    config: dict = {}
    inner = config
    for _ in range(100_000):
        inner["a"] = {}
        inner = inner["a"]

    found = problems_of(cases.changed({"spec.model.config": config}))
    while config:  # freed from the outside in: the interpreter would recurse
        config = config.pop("a", {})

    assert "too large" in found["spec.model.config"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.model.id", "a" * 10_000_000),
        ("spec.engine.extraArgs", ["--a"] * 1_000_000),
        ("spec.budget", {"kvCache": "9" * 10_000_000}),
        ("spec.rollout", {"progressDeadline": "1h" * 5_000_000}),
        ("spec.pools", {"unified": {"nodeSelector": {str(n): "a" for n in range(100_000)}}}),
        ("spec.model.servedNames", ["a" * 300] * 1000),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "giant",
)
def test_giant_values_are_refused_at_once_and_not_repeated(path, value):
    started = time.process_time()
    with pytest.raises(Invalid) as refusal:
        llmdeployment.parse(cases.changed({path: value}))

    assert time.process_time() - started < 5
    assert len(str(refusal.value.problems[0])) < 500


def test_a_strangers_key_is_shown_escaped_and_cut():
    found = problems_of(cases.changed({f"spec.{'a' * 200}": 1, "spec.\x1b[2J\u202e": 1}))

    assert all(len(field) < 120 and field.isprintable() for field in found)


@given(
    st.text(max_size=40).filter(lambda name: name not in cases.base()["spec"]),
)
def test_no_unknown_field_is_ever_accepted_or_breaks_the_reader(name):
    known = {"kvCache", "budget", "workload", "rollout"}
    document = cases.base()
    document["spec"][name] = {"no": "such field"}

    found = problems_of(document)

    assert name in known or len(found) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = ("model", "engine", "kvCache", "budget", "workload", "pools", "rollout")


@given(st.dictionaries(st.sampled_from(FIELDS), JSON), JSON)
def test_whatever_stands_in_the_fields_is_read_or_refused(spec, metadata):
    document = {**cases.base(), "metadata": metadata}
    document["spec"] = {**document["spec"], **spec}

    try:
        parsed = llmdeployment.parse(document)
    except Invalid as refusal:
        told = [bool(problem.field and problem.message) for problem in refusal.problems]
    else:
        told = [llmdeployment.parse(parsed.wire()).spec == parsed.spec]

    assert told
    assert all(told)


def test_the_status_of_a_document_is_not_read():
    assert llmdeployment.parse({**cases.base(), "status": {"anything": 1}}).status is None
