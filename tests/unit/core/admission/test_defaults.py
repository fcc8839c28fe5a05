"""Defaults: those of the schema, added where nothing stands, and no others."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.api import llmdeployment
from tidegate.core.admission import defaults, review

from .resources import a_resource, seen

_PARTS = st.fixed_dictionaries(
    {},
    optional={
        "spec__kvCache": st.sampled_from(
            [{}, {"dtype": "fp8"}, {"transfer": {}}, {"transfer": {"lease": "1m"}}]
        ),
        "spec__budget": st.sampled_from([{}, {"safetyLine": 0.8}, {"kvCache": "4Gi"}]),
        "spec__rollout": st.sampled_from([{}, {"strategy": "Recreate"}, {"maxSurge": "25%"}]),
        "spec__engine__env": st.sampled_from([[], [{"name": "A", "value": "b"}]]),
        "spec__model__weights": st.sampled_from([{}, {"dtype": "float16"}]),
        "spec__pools": st.sampled_from(
            [
                {"unified": {}},
                {"unified": {"replicas": 0, "podTemplate": {"labels": {"a": "b"}}}},
                {"prefill": {}, "decode": {"tensorParallel": 2}},
                {"unified": {"tolerations": [{"key": "a"}, {"operator": "Exists"}]}},
                {"unified": {"nodeAffinity": [{"key": "a", "operator": "Exists"}]}},
            ]
        ),
    },
)


@settings(deadline=None)
@given(_PARTS)
def test_filling_twice_is_filling_once(parts):
    once = defaults.fill(a_resource(**parts))

    assert defaults.fill(once) == once
    assert defaults.missing(once) == ()


@settings(deadline=None)
@given(_PARTS)
def test_what_the_user_wrote_stays_as_it_was(parts):
    document = a_resource(**parts)
    filled = defaults.fill(document)

    def is_within(part, whole):
        if isinstance(part, dict):
            return all(key in whole and is_within(part[key], whole[key]) for key in part)
        if isinstance(part, list):
            return len(part) == len(whole) and all(map(is_within, part, whole))
        return part == whole

    assert is_within(document, filled)


@settings(deadline=None)
@given(_PARTS)
def test_what_is_added_means_what_its_absence_meant(parts):
    document = a_resource(**parts)

    assert llmdeployment.parse(defaults.fill(document)).spec == llmdeployment.parse(document).spec


def test_the_patch_only_adds_and_leads_to_the_filled_resource():
    document = a_resource(spec__pools={"unified": {"tolerations": [{"key": "a"}]}})
    patched = copy.deepcopy(document)
    for operation in review(None, document, seen()).patch:
        assert operation["op"] == "add"
        *parents, last = operation["path"].strip("/").split("/")
        part = patched
        for step in parents:
            part = part[int(step)] if isinstance(part, list) else part[step]
        assert last not in part
        part[last] = operation["value"]

    assert patched == defaults.fill(document)
    assert patched["spec"]["pools"]["unified"]["tolerations"] == [{"key": "a", "operator": "Equal"}]


def test_a_null_is_what_an_absent_field_is():
    document = a_resource()
    document["spec"]["pools"]["unified"]["replicas"] = None

    assert defaults.fill(document)["spec"]["pools"]["unified"]["replicas"] == 1


@pytest.mark.parametrize(
    ("part", "field"),
    [("engine", "version"), ("engine", "maxNumSeqs"), ("engine", "maxNumBatchedTokens")],
)
def test_nothing_is_written_that_follows_from_another_field(part, field):
    """A GitOps tool that changes the image would find the old version beside it."""
    assert field not in defaults.fill(a_resource())["spec"][part]


@pytest.mark.parametrize("spec", [None, [], "a", {"pools": [], "engine": 3}])
def test_what_has_not_the_form_of_a_resource_is_no_reason_to_fail(spec):
    document = {"kind": "LLMDeployment", "spec": spec}

    assert defaults.fill(defaults.fill(document)) == defaults.fill(document)
    assert not review(None, document, seen()).allowed
