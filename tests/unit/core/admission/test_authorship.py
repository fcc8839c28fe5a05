"""Who set a lever is what the API server knows, whatever the resource claims."""

import pytest

from tidegate.core.admission import authorship

from .resources import a_resource

PATH = "/spec/overload/override/setBy"
LEVER = {"action": "Shed", "percent": 30, "until": "2027-01-01T00:00:00Z", "reason": "INC-1"}


def with_lever(**parts):
    return a_resource(spec__overload={"override": {**LEVER, **parts}})


def filled(value):
    return ({"op": "add", "path": PATH, "value": value},)


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        pytest.param(None, with_lever(), filled("jo"), id="a new resource with a lever"),
        pytest.param(a_resource(), with_lever(), filled("jo"), id="a lever is pulled"),
        pytest.param(None, with_lever(setBy="boss"), filled("jo"), id="a forged author"),
        pytest.param(
            with_lever(setBy="amy"), with_lever(setBy="amy", percent=40), filled("jo"),
            id="another percentage is another's lever",
        ),
        pytest.param(
            with_lever(setBy="amy"), with_lever(setBy="amy"), (), id="an update of something else"
        ),
        pytest.param(
            with_lever(setBy="amy"), with_lever(), filled("amy"),
            id="a client that leaves the author out",
        ),
        pytest.param(
            with_lever(setBy="amy"), with_lever(setBy="boss"), filled("amy"),
            id="the author alone is changed",
        ),
        pytest.param(
            with_lever(), with_lever(setBy="boss"), ({"op": "remove", "path": PATH},),
            id="an author is added to a lever of a time without a webhook",
        ),
        pytest.param(with_lever(setBy="amy"), a_resource(), (), id="the lever is let go"),
        pytest.param(None, a_resource(spec__overload={"override": "x"}), (), id="no lever at all"),
        pytest.param(None, {"spec": None}, (), id="no resource at all"),
    ],
)  # fmt: skip
def test_the_author_of_a_lever_is_who_pulled_it(old, new, patch):
    assert authorship.operations(old, new, "jo") == patch


def test_a_hostile_name_becomes_one_visible_line():
    (operation,) = authorship.operations(None, with_lever(), "a\u202eb\n" + "c" * 1000)

    assert operation["value"].startswith("a?b?c")
    assert len(operation["value"]) == 512
