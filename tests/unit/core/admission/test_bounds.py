"""What is too large is said at once, and cheaply; what is wrong is cut out of what is right."""

import time

import pytest

from tidegate.core.admission import bounds, mended, paths, review

from .resources import a_resource, seen


def deep(levels):
    inner = {}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"spec__model__config": {"a": "x" * bounds.MOST_BYTES}}, "spec"),
        ({"spec__model__config": {"x" * bounds.MOST_BYTES: 1}}, "spec"),
        ({"spec__model__config": deep(100_000)}, "spec.model.config"),
        ({"spec__model__servedNames": ["a"] * 513}, "spec.model.servedNames"),
        ({"spec__a": {str(n): n for n in range(513)}}, "spec.a"),
    ],
)
def test_what_is_too_large_names_where(change, field):
    began = time.process_time()
    [found] = review(None, a_resource(**change), seen()).problems

    assert found.reason == "SpecTooLarge"
    assert found.field.startswith(field)
    assert "model.configRef" in found.fix
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "change",
    [
        {"spec__model__config": {"layers": ["full"] * 5000}},
        {"spec__model__config": {"text": "é" * 16_000}},
        {"metadata__annotations": {"a": "x" * 200_000}},
    ],
)
def test_what_is_large_and_read_is_left_alone(change):
    assert bounds.check(a_resource(**change)) is None


def test_a_document_of_nothing_is_small():
    for document in ({}, {"spec": None}, {"spec": []}, {"spec": "a"}):
        assert bounds.check(document) is None


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("spec.engine.env[2].name", ("spec", "engine", "env", 2, "name")),
        ("spec.pools.a.nodeSelector['x/y.z']", ("spec", "pools", "a", "nodeSelector", "x/y.z")),
        ("document", ("document",)),
    ],
)
def test_a_path_is_read_as_findings_spell_it(path, steps):
    assert paths.steps(path) == steps


def test_fields_that_are_wrong_are_cut_out_and_lists_keep_the_rest():
    document = {"spec": {"a": 1, "env": [{"name": "x"}, {"name": "y"}, {"name": "z"}]}}
    rest = mended.without(document, ["spec.a", "spec.env[0].name", "spec.env[2].name", "spec.b.c"])

    assert rest == {"spec": {"env": [{"name": "y"}]}}
    assert len(document["spec"]["env"]) == 3
