"""What another version may have stored: the unknown is left out, the unreadable is no excuse."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tidegate.api import stored
from tidegate.api.llmdeployment_status import LLMDeploymentStatus
from tidegate.api.rollout_status import RolloutStatus

AT = "2027-01-15T08:00:00Z"
ROLLOUT = {
    "summary": "Aborted: x",
    "phase": "Aborted",
    "stable": "aaaa",
    "canary": "bbbb",
    "stepSince": AT,
    "verdicts": {"passed": 1},
    "failed": [{"revision": "bbbb", "at": AT, "because": "x"}],
}
STATUS = {"observedGeneration": 3, "revision": "bbbb", "rollout": ROLLOUT}
PLACES = [(), ("rollout",), ("rollout", "verdicts"), ("rollout", "failed", 0)]


def with_value(document, place, key, value):
    changed = copy.deepcopy(document)
    within = changed
    for part in place:
        within = within[part]
    within[key] = value
    return changed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.text(min_size=1, max_size=4), JSON)))
def test_what_is_unknown_is_left_out_wherever_it_stands(more):
    document = STATUS
    for place, key, value in more:
        document = with_value(document, place, f"later-{key}", value)
    assert (
        stored.read(LLMDeploymentStatus, document).wire()
        == LLMDeploymentStatus.model_validate(STATUS).wire()
    )


@pytest.mark.parametrize("key", ["phase", "stable", "step", "failed"])
def test_a_value_that_cannot_be_read_is_told_though_something_is_unknown_too(key):
    document = with_value({**ROLLOUT, "later": 1}, (), key, {"no": "such"})
    with pytest.raises(ValidationError):
        stored.read(RolloutStatus, document)


def test_of_a_document_with_one_unreadable_part_all_others_are_read():
    document = {**with_value(STATUS, ("rollout",), "phase", "Warming"), "later": 1}
    found = stored.read_parts(LLMDeploymentStatus, document)
    assert found is not None
    assert found.rollout is None
    assert (found.observed_generation, found.revision) == (3, "bbbb")


@pytest.mark.parametrize("document", [None, 1, "text", []])
def test_what_is_no_document_is_none(document):
    assert stored.read_parts(LLMDeploymentStatus, document) is None
