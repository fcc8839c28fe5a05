"""The most blocks that requests hold at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.gate.core.peak import Growing, Peak

REQUEST = st.builds(
    Growing,
    st.integers(0, 50),
    st.integers(0, 60),
    st.integers(0, 8).map(lambda eighth: eighth / 8),
)
REQUESTS = st.lists(REQUEST, max_size=12)


def walked(requests):
    """The peak, found by letting time pass token by token; each ends after its last."""
    longest = max((request.remaining_tokens for request in requests), default=0)
    return max(
        sum(
            request.blocks + request.blocks_per_token * now
            for request in requests
            if request.remaining_tokens >= now
        )
        for now in range(longest + 1)
    )


@settings(deadline=None)
@given(REQUESTS)
def test_the_peak_is_the_most_that_is_held_at_any_time(requests):
    assert Peak(requests).blocks == pytest.approx(walked(requests))


@settings(deadline=None)
@given(REQUESTS, REQUEST)
def test_one_more_is_as_if_it_had_been_there(requests, one):
    peak = Peak(requests).with_one_more(one, enough=1e9)
    assert peak == pytest.approx(walked([*requests, one]))


@settings(deadline=None)
@given(REQUESTS, REQUEST, st.integers(0, 500))
def test_the_short_cut_never_changes_the_verdict(requests, one, enough):
    found = Peak(requests).with_one_more(one, enough)
    assert (found > enough + 1e-6) == (walked([*requests, one]) > enough + 1e-6)


def test_requests_at_all_stages_need_half_of_their_answers_at_once():
    stages = [Growing(made, 100 - made, 1.0) for made in range(0, 100, 2)]
    at_their_ends = 100 * len(stages)
    assert Peak(stages).blocks == pytest.approx(at_their_ends / 2, rel=0.05)


def test_requests_that_began_together_need_all_of_it():
    assert Peak([Growing(0, 100, 1.0)] * 5).blocks == 500
