"""Whatever somebody writes, a review answers: it never fails, and it never contradicts itself."""

import copy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.core.admission import Memo, paths, review, wording

from .resources import a_resource, seen

WORLD, MEMO = seen(), Memo()
SLOW = [HealthCheck.too_slow]  # a busy machine is slow, and no reason to fail
FULL = a_resource(
    spec__model__source={"huggingFace": {"tokenSecretRef": {"name": "hf", "key": "token"}}},
    spec__model__servedNames=["a"],
    spec__engine__env=[{"name": "A", "value": "b"}],
    spec__engine__extraArgs=["--seed", "1"],
    spec__kvCache={"dtype": "fp8", "transfer": {"lease": "30s"}},
    spec__workload={"promptTokens": {"p95": 100}, "outputTokens": {"p95": 10}},
    spec__rollout={"maxSurge": 1},
    spec__pools__unified__podTemplate={"labels": {"a": "b"}, "annotations": {"a": "b"}},
    spec__pools__unified__tolerations=[{"key": "a", "operator": "Exists"}],
)


def _fields(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _fields(item, (*path, index))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["a\0b", "\u202e", "qw\u0435n", "--model=x", "1e309", "-1Gi", "{{ x }}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
CHANGES = st.lists(st.tuples(st.sampled_from(list(_fields(FULL))[1:]), ANYTHING), max_size=3)


def _changed(changes):
    document = copy.deepcopy(FULL)
    for path, value in changes:
        *parents, last = path
        part = paths.value(document, tuple(parents))
        if (isinstance(part, dict) and isinstance(last, str)) or (
            isinstance(part, list) and isinstance(last, int) and last < len(part)
        ):
            part[last] = value
    return document


@settings(deadline=None, max_examples=300, suppress_health_check=SLOW)
@given(CHANGES, CHANGES)
def test_any_document_is_answered_as_a_creation_and_as_an_update(first, second):
    old, new = _changed(first), _changed(second)
    for before in (None, old):
        found = review(before, new, seen(others=[old]), MEMO)

        assert found.allowed == (not found.problems)
        assert all(one.field and one.limit for one in (*found.problems, *found.warnings))
        assert all(line.isprintable() for line in wording.warnings(found))
        assert len(wording.refusal(found, "chat").splitlines()) == 1 + len(found.problems)


@settings(deadline=None, max_examples=100, suppress_health_check=SLOW)
@given(CHANGES)
def test_what_is_applied_again_is_never_refused(changes):
    """Whatever got in, a label can be set on it."""
    document = _changed(changes)
    labelled = copy.deepcopy(document)
    if isinstance(labelled.get("metadata"), dict):
        labelled["metadata"]["labels"] = {"a": "b"}

    assert review(document, labelled, WORLD, MEMO).allowed


@settings(deadline=None, max_examples=100, suppress_health_check=SLOW)
@given(CHANGES)
def test_the_defaults_that_are_added_change_no_verdict(changes):
    document = _changed(changes)
    found = review(None, document, WORLD, MEMO)
    filled = copy.deepcopy(document)
    for operation in found.patch:
        *parents, last = operation["path"].strip("/").split("/")
        part = filled
        for step in parents:
            part = part[int(step)] if isinstance(part, list) else part[step]
        part[last] = operation["value"]
    again = review(None, filled, WORLD, MEMO)

    assert again.patch == ()
    assert (again.problems, again.warnings) == (found.problems, found.warnings)
