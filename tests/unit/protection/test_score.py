"""What the bench of the overload loop says of a run."""

import pytest
from bench.goodput.clients import Visit
from bench.goodput.mixes import Request
from bench.protected import score
from bench.protected.score import Look
from bench.protected.stage import LOW, MIDDLE, TOP

FRESH = "MetricsFresh"


def looks(*shares: float, usage: float = 0.7, told: str = FRESH) -> list[Look]:
    """Return a look a second, with these shares."""
    return [Look(float(at), usage, share, 0.0, told) for at, share in enumerate(shares)]


def visit(at: float, priority: int, *, reason: str = "", is_good: bool = False) -> Visit:
    one = Visit(Request(at, 10, 10, 10, priority), reason=reason)
    if is_good:
        one.first_at, one.is_complete = one.sent_at + 0.1, True
    return one


def scored(seen, visits=(), begin=0.0, end=10.0):
    return score.score(seen, visits, 0.6, begin, end, 1.0)


@pytest.mark.parametrize(
    ("shares", "turns"),
    [
        ((), 0),
        ((0, 20, 40, 40, 60), 0),
        ((0, 20, 20, 10, 0), 1),
        ((0, 20, 10, 20, 10), 3),
        ((40, 40, 40), 0),
    ],
)
def test_a_turn_is_a_change_of_direction_and_standing_still_is_none(shares, turns):
    assert score.turns(shares) == turns


def test_turns_are_told_for_ten_minutes():
    assert scored(looks(0, 20, 10, 20), end=60.0).turns == 20


def test_a_shift_that_goes_to_and_fro_turns_though_as_much_is_taken_off_in_all():
    seen = [
        Look(float(at), 0.7, 40 - shift, shift, FRESH) for at, shift in enumerate((0, 40, 0, 40))
    ]

    assert scored(seen, end=60.0).turns == 20


def test_the_first_share_is_counted_from_the_threshold_and_not_from_the_load():
    calm, over = looks(0, 0, usage=0.2), looks(0, 0, 0, 0, 0, 20)
    seen = calm + [Look(one.at, 0.7, one.shed, 0.0, FRESH) for one in over[2:]]

    assert scored(seen).first_seconds == 3


def test_without_a_share_there_is_no_first_one():
    assert scored(looks(0, 0, 0)).first_seconds is None


@pytest.mark.parametrize(
    ("shares", "seconds"), [((40, 40, 20, 0, 0), 1), ((40, 40, 20, 10, 10), None), ((0,) * 5, 0)]
)
def test_a_run_that_ends_with_a_share_has_not_let_go(shares, seconds):
    assert scored(looks(*shares), end=1.0).let_go_seconds == seconds


def test_goodput_is_of_each_class_and_of_the_time_of_overload():
    visits = [
        visit(1.0, TOP, is_good=True),
        visit(2.0, TOP),
        visit(3.0, LOW, is_good=True),
        visit(30.0, LOW, is_good=True),
    ]
    got = scored(looks(0), visits)

    assert got.goodput == {TOP: 0.1, MIDDLE: 0.0, LOW: 0.1}
    assert got.asked == {TOP: 0.2, MIDDLE: 0.0, LOW: 0.1}


def test_only_sheds_of_the_top_class_are_its_losses():
    visits = [
        visit(1.0, TOP, reason="shed"),
        visit(1.0, TOP, reason="kv-budget"),
        visit(1.0, LOW, reason="shed"),
    ]

    assert scored(looks(0), visits).top_shed == 1


def test_a_share_that_grows_after_data_went_is_found_and_one_on_its_way_is_not():
    late = score.ON_ITS_WAY_SECONDS

    assert score.grew(looks(*[20] * 3, *[40] * 9), since=2.0) is None
    assert score.grew(looks(*[20] * 9, 40), since=8.0 - late) == 40
