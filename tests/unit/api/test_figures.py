"""Numbers with their standing and their band."""

import pytest

from tidegate.api import figures
from tidegate.api.figures import Figure, How


def test_a_sum_adds_the_bands_and_is_as_sure_as_its_least_sure_part():
    parts = [figures.exact(10), figures.measured(5), figures.estimated(20, 15, 30)]

    assert figures.total(parts) == Figure(35, 30, 45, How.ESTIMATED)
    assert figures.total(parts[:2]).how is How.MEASURED


def test_the_sum_of_nothing_is_an_exact_zero():
    assert figures.total([]) == figures.exact(0)


@pytest.mark.parametrize(("low", "high"), [(11, 20), (0, 9), (20, 0)])
def test_a_band_that_does_not_hold_its_value_is_refused(low, high):
    with pytest.raises(ValueError, match="outside of its band"):
        figures.estimated(10, low, high)
