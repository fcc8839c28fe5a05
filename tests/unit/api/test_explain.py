"""`tidegate explain`, and the reference pages."""

import pytest

from tidegate.api import explain, fields, reference
from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.fields import FieldFacts
from tidegate.api.reasons import Reason


@pytest.mark.parametrize(
    ("term", "path"),
    [
        ("spec.kvCache.dtype", "spec.kvCache.dtype"),
        ("kvCache.dtype", "spec.kvCache.dtype"),
        (".spec.kvcache.DTYPE", "spec.kvCache.dtype"),
        ("llmd.spec.engine", "spec.engine"),
        ("spec.engine.env[0].name", "spec.engine.env[].name"),
        ("engine.env.name", "spec.engine.env[].name"),
        ("status.plan[].kvTokens", "status.plan[].kvTokens"),
        ("metadata", "metadata"),
        ("safetyLine", "spec.budget.safetyLine"),
    ],
)
def test_a_field_is_found_however_it_is_written(term, path):
    assert explain.explain(term).path == path


def test_a_field_is_explained_with_type_default_and_bounds():
    found = explain.explain("pools.decode.replicas")

    assert found == FieldFacts(
        path="spec.pools.decode.replicas",
        type="integer",
        description="Pods in the pool, over all classes of node.",
        required=False,
        default="1",
        bounds=("from 0 to 1000",),
        fields=(),
    )
    assert "default: 1" in found.text()
    assert found.wire()["bounds"] == ("from 0 to 1000",)


@pytest.mark.parametrize(
    ("path", "kind", "bound"),
    [
        ("spec.pools.unified.nodeSelector", "map of string to string", "at most 32 keys"),
        ("spec.model.servedNames", "list of string", "no entry twice"),
        ("spec.engine.env", "list of object", "no name twice"),
        ("spec.engine.imagePullPolicy", "string", "one of Always, IfNotPresent, Never"),
        ("spec.budget.safetyLine", "number", "more than 0, at most 0.98"),
        ("spec.budget.kvCache", "integer or string", "must be from 1 to 1Pi"),
        ("spec.pools", "object", "set unified, or both prefill and decode"),
    ],
)
def test_types_and_bounds_are_told_in_words(path, kind, bound):
    facts = fields.by_path()[path]

    assert facts.type == kind
    assert bound in facts.bounds


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_explained_whatever_its_letter_case(reason):
    found = explain.explain(reason.value.upper())

    assert (found.reason, found.meaning, found.action) == (
        reason.value,
        EXPLANATIONS[reason].meaning,
        EXPLANATIONS[reason].action,
    )
    assert found.action in found.text()


@pytest.mark.parametrize(
    ("term", "suggestion"),
    [
        ("KVCacheSmall", "KVCacheTooSmall"),
        ("kvCache.dtpe", "spec.kvCache.dtype"),
        ("max_model_len", "spec.engine.maxModelLen"),
        ("replicas", "spec.pools.unified.replicas"),
        ("pools.decod.replicas", "spec.pools.decode.replicas"),
    ],
)
def test_what_is_not_known_is_answered_with_the_nearest(term, suggestion):
    found = explain.explain(term)

    assert found.term == term
    assert suggestion in found.suggestions


@pytest.mark.parametrize("term", ["bogus", "nonsense", "foo", "spec.bogus"])
def test_nothing_far_fetched_is_suggested(term):
    assert explain.explain(term).suggestions == ()


@pytest.mark.parametrize("term", ["", "  ", ".", "[0]", "€" * 1000, "spec."])
def test_nonsense_is_not_known_and_breaks_nothing(term):
    found = explain.explain(term)

    assert isinstance(found, explain.Unknown | FieldFacts)


def test_the_reference_has_a_line_for_every_field():
    page = reference.field_page()

    missing = [
        facts.path
        for facts in fields.by_path().values()
        if facts.path.startswith(("spec.", "status.")) and f"| `{facts.name}` |" not in page
    ]
    assert missing == []


def test_alike_objects_are_told_once_in_the_reference():
    page = reference.field_page()

    assert "## spec.pools.decode\n\nPods that write answers.\n\nThe same fields as" in page
    assert page.count("| `tensorParallel` |") == 1


def test_the_reference_links_lead_to_headings():
    page = reference.field_page()
    targets = {part.split(")")[0] for part in page.split("](#")[1:]}
    headings = {
        "".join(c for c in line[3:].lower() if c.isalnum())
        for line in page.splitlines()
        if line.startswith("## ")
    }

    assert targets
    assert targets <= headings
