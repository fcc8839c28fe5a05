"""The note of a slice's template: what it holds up, and when there is none."""

import json

import pytest

from tidegate.core import kept_rendering, names

NAME = "chat-unified-0a1b2c3d-h100"


def deployment(flag, **annotations):
    labels = {"tidegate.io/pool": "unified"}
    return {
        "kind": "Deployment",
        "metadata": {"name": NAME, "annotations": {names.ANNOTATION_GATE: flag, **annotations}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "engine", "args": [flag]}]},
            },
        },
    }


def flag_of(document):
    return document["spec"]["template"]["spec"]["containers"][0]["args"][0]


def applied(flag):
    """A slice as an earlier version has made it."""
    (made,) = kept_rendering.keep([deployment(flag)], []).slices
    return made


def test_the_slice_that_is_there_keeps_its_template_and_what_gates_were_told():
    kept = kept_rendering.keep([deployment("new")], [applied("old")])

    (document,) = kept.slices
    assert kept.waiting == (NAME,)
    assert flag_of(document) == "old"
    assert document["metadata"]["annotations"][names.ANNOTATION_GATE] == "old"


@pytest.mark.parametrize(("noted", "said"), [("old", "old"), (None, "new")])
def test_what_its_engines_answer_to_is_kept_and_added_where_it_was_not_noted(noted, said):
    before = applied("old")
    if noted is not None:
        before["metadata"]["annotations"][names.ANNOTATION_SERVES] = noted
    rendered = deployment("new", **{names.ANNOTATION_SERVES: "new"})

    (document,) = kept_rendering.keep([rendered], [before]).slices
    assert document["metadata"]["annotations"][names.ANNOTATION_SERVES] == said


def test_keeping_it_again_and_again_changes_nothing():
    first = kept_rendering.keep([deployment("new")], [applied("old")])
    again = kept_rendering.keep([deployment("newer")], first.slices)

    assert again == first


def test_what_was_changed_by_hand_is_not_kept():
    by_hand = applied("old")
    by_hand["spec"] = {**by_hand["spec"], "template": deployment("hand")["spec"]["template"]}

    (document,) = kept_rendering.keep([deployment("new")], [by_hand]).slices
    assert flag_of(document) == "old"


def test_replicas_are_always_those_of_now():
    wanted = deployment("new")
    wanted["spec"]["replicas"] = 7

    (document,) = kept_rendering.keep([wanted], [applied("old")]).slices
    assert document["spec"]["replicas"] == 7


@pytest.mark.parametrize(
    "note",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        json.dumps({"metadata": {}, "spec": {}}),
        json.dumps({"spec": 1}),
    ],
)
def test_a_note_that_is_no_template_holds_up_nothing(note):
    live = deployment("old", **{names.ANNOTATION_RENDERED: note})

    kept = kept_rendering.keep([deployment("new")], [live])
    assert kept.waiting == ()
    assert flag_of(kept.slices[0]) == "new"


def test_a_template_too_long_for_an_annotation_is_not_noted():
    (document,) = kept_rendering.keep([deployment("x" * 200_000)], []).slices

    assert names.ANNOTATION_RENDERED not in document["metadata"]["annotations"]
