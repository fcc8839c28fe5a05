"""Every constant of the budget has a band, a unit and a source."""

import pytest

from tidegate.facts import budget_terms


def test_each_term_of_the_data_is_read():
    for name in budget_terms.term_names():
        term = budget_terms.term(name)
        assert term.low <= term.value <= term.high
        assert term.unit
        assert term.source


def test_a_name_that_the_data_lacks_is_a_bug():
    with pytest.raises(KeyError):
        budget_terms.term("nope")


def test_a_value_outside_of_its_band_is_refused():
    with pytest.raises(ValueError, match="not in 2 to 3"):
        budget_terms.Term("x", 1, 2, 3, "bytes", "a log", None)


def test_a_constant_without_a_source_is_refused():
    with pytest.raises(ValueError, match="source"):
        budget_terms.Term("x", 1, 1, 1, "bytes", "", None)
