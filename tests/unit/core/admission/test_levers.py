"""A lever's end: told where it has passed or is far ahead, and never a reason to refuse."""

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
