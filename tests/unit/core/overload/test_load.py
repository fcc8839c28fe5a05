"""How much more a deployment can take, in requests a second: only what its gates tell."""

import math

import pytest

from tidegate.core.overload.load import Load, loads, spare_per_second

from .answers import NOW, PLACE, SCRAPE_SECONDS, figures

BUSY = Load(12, 10, reserved_tokens=4000, capacity_tokens=10_000)


def told(rows):
    return dict(loads(rows, NOW, SCRAPE_SECONDS))


def answer(at=NOW - 5, requests=12, **pools):
    rates = figures(requests=requests, admitted=10, at=at)
    return (
        *rates,
        *(
            row
            for pool, (reserved, capacity) in pools.items()
            for row in figures(pool=pool, reserved=reserved, capacity=capacity)
        ),
    )


def test_a_load_is_that_of_the_pool_with_the_least_left():
    found = told(answer(prefill=(100, 10_000), decode=(9000, 10_000)))

    assert found == {PLACE: Load(12, 10, 9000, 10_000)}


@pytest.mark.parametrize(
    "rows",
    [
        answer(),
        answer(unified=(100, None)),
        answer(unified=(math.nan, 10)),
        answer(prefill=(1, 10), decode=(None, 10)),
        answer(requests=math.nan, unified=(1, 10)),
        answer(at=NOW - 100, unified=(1, 10)),
    ],
)
def test_figures_that_are_old_or_lack_something_are_no_load(rows):
    assert told(rows) == {}


def test_what_is_left_is_counted_in_requests_as_the_target_has_them():
    # 400 tokens are held for each request a second; 8,000 may be in use and 4,000 are
    assert spare_per_second(BUSY, None, budget=0.8) == 10


def test_an_idle_target_is_reckoned_with_the_requests_that_would_come():
    idle = Load(0, 0, 0, 10_000)

    assert spare_per_second(idle, BUSY, budget=0.8) == 20
    assert spare_per_second(idle, None, budget=0.8) is None


def test_a_full_target_takes_nothing_whatever_its_requests_are():
    assert spare_per_second(Load(0, 0, 9000, 10_000), None, budget=0.8) == 0
