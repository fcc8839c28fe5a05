"""A lever's end: told where it has passed or is far ahead, and never a reason to refuse.

Its share: refused where it is no whole percent, unless it is stored already.
"""

from datetime import UTC, datetime

import pytest

from tidegate.core.admission import review

from .resources import a_resource, reasons, seen

NOW = datetime(2026, 12, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("until", "warned"),
    [
        ("2026-12-01T00:30:00Z", set()),
        ("2026-12-08T00:00:00Z", set()),
        ("2026-12-08T00:00:01Z", {"OverrideLong"}),
        ("2026-12-01T00:00:00Z", {"OverrideLapsed"}),
        ("2020-01-01T00:00:00Z", {"OverrideLapsed"}),
    ],
)
def test_an_end_is_warned_of_where_it_is_none(until, warned):
    lever = {"action": "Open", "until": until, "reason": "INC-1"}
    document = a_resource(spec__overload={"override": lever})

    found = review(None, document, seen(now=NOW))

    assert found.allowed
    assert reasons(found.warnings) == warned
    assert not reasons(review(None, document, seen()).warnings), "without a clock nobody knows"


def a_lever(action="Shed", **parts):
    until = {"until": "2026-12-01T00:30:00Z", "reason": "INC-1"}
    return a_resource(spec__overload={"override": {"action": action, **until, **parts}})


@pytest.mark.parametrize(
    ("action", "to"), [("Shed", {}), ("Shift", {"to": "b"})], ids=["shed", "shift"]
)
@pytest.mark.parametrize(
    ("percent", "is_allowed"),
    [(0, False), (0.5, False), (0.99, False), (2.5, False), (1, True), (30.0, True), (100, True)],
)
def test_a_share_that_is_no_whole_percent_is_refused(action, to, percent, is_allowed):
    for at in (NOW, None):
        found = review(None, a_lever(action, percent=percent, **to), seen(now=at))

        assert found.allowed is is_allowed
        if not is_allowed:
            [problem] = found.problems
            assert problem.field == "spec.overload.override.percent"
            assert "50 is one half" in problem.line


def test_a_share_that_an_earlier_version_let_in_hinders_no_other_change():
    stored, other = a_lever(percent=2.5), a_lever(percent=2.5)
    other["spec"]["pools"]["unified"]["replicas"] = 3

    assert review(stored, other, seen(now=NOW)).allowed
    assert review(stored, a_resource(), seen(now=NOW)).allowed
    assert not review(stored, a_lever(percent=0.5), seen(now=NOW)).allowed


def named(name, **overload):
    document = a_resource(spec__overload=overload)
    document["metadata"]["name"] = name
    return document


def a_shift(to, until):
    return {"action": "Shift", "percent": 10, "to": to, "until": until, "reason": "INC-1"}


@pytest.mark.parametrize(
    ("until", "now", "is_circle"),
    [
        pytest.param("2026-12-01T00:00:01Z", NOW, True, id="it holds"),
        pytest.param("2026-12-01T00:00:00Z", NOW, False, id="it has lapsed"),
        pytest.param("2020-01-01T00:00:00Z", NOW, False, id="it has lapsed long since"),
        pytest.param("2020-01-01T00:00:00Z", None, True, id="nobody knows the time"),
        pytest.param("some time", NOW, True, id="its end cannot be read"),
    ],
)
def test_a_lever_makes_a_circle_for_as_long_as_it_holds(until, now, is_circle):
    others = (named("b", shift={"to": "c"}), named("c", override=a_shift("a", until)))

    found = review(None, named("a", shift={"to": "b"}), seen(others=others, now=now))

    assert ("ShiftCycle" in reasons(found.problems)) is is_circle
    assert found.allowed is not is_circle


@pytest.mark.parametrize(
    ("until", "is_circle"), [("2026-12-01T00:00:01Z", True), ("2026-12-01T00:00:00Z", False)]
)
def test_so_does_the_deployments_own(until, is_circle):
    world = seen(others=(named("b", shift={"to": "a"}),), now=NOW)

    found = review(None, named("a", override=a_shift("b", until)), world)

    assert ("ShiftCycle" in reasons(found.problems)) is is_circle


def test_where_a_lever_that_has_lapsed_shifted_to_needs_not_be_there():
    lapsed = a_shift("gone", "2026-12-01T00:00:00Z")

    found = review(None, named("a", override=lapsed), seen(now=NOW))

    assert reasons(found.warnings) == {"OverrideLapsed"}
