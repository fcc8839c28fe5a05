"""What holds for any evidence, and how often an equal canary is called worse."""

import dataclasses
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.analysis.sides import BOUNDS, EVERYTHING, measured, side, verdict_of

from tidegate.core.analysis import betting, histograms, limits, shares
from tidegate.core.analysis.betting import Tally
from tidegate.core.analysis.evidence import Evidence, Histogram, Look, Metric, Verdict
from tidegate.core.analysis.judge import judge
from tidegate.core.analysis.shares import Stratum

SEVERITY = [Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]
RATE = 0.05
RUNS = 400
HOSTILE = (None, 0.0, 0.0, 1e-9, 0.5, 1.0, 3.0, 70.0, 1e6)


def hostile(random):
    """Return a side of which much is unknown, zero, tiny or huge."""
    return [
        Evidence(
            at=30.0 * index,
            seconds=30.0,
            ended_well=random.choice(HOSTILE),
            ended_badly=random.choice(HOSTILE),
            ttft=hostile_times(random),
            tpot=hostile_times(random),
            preemptions=random.choice(HOSTILE),
            restarts=random.choice((None, {}, {"OOM": random.choice(HOSTILE[1:])})),
            prefix_hit_tokens=random.choice(HOSTILE),
            prefix_query_tokens=random.choice(HOSTILE),
            kv_drift_percent=random.choice((None, -100.0, 0.0, 100.0)),
            memory_bytes=random.choice(HOSTILE),
        )
        for index in range(random.randrange(25))
    ]


def hostile_times(random):
    counts = [random.choice(HOSTILE) for _ in range(4)]
    return (
        None if counts[0] is None else Histogram((0.1, 0.2, 0.4), tuple(of or 0.0 for of in counts))
    )


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1_000_000))
def test_any_evidence_gets_a_judgement_with_numbers(seed):
    random = Random(seed)
    judgement = judge(EVERYTHING, hostile(random), hostile(random), Look())

    assert len(judgement.measurements) == len(EVERYTHING)
    for one in judgement.measurements:
        numbers = [one.canary, one.baseline, one.samples, one.p_value]
        assert all(math.isfinite(number) for number in numbers if number is not None), one
        assert one.p_value is None or 0 <= one.p_value <= 1


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), requests=st.sampled_from([3, 10, 40]))
def test_a_slower_canary_is_never_judged_better(seed, requests):
    stable = side(f"stable {seed}", requests=requests, intervals=24)
    canary = side(f"canary {seed}", requests=requests, intervals=24)

    found = [
        SEVERITY.index(verdict_of(Metric.TTFT_P95, slower(canary, buckets), stable))
        for buckets in range(6)
    ]

    assert found == sorted(found)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), requests=st.sampled_from([3, 10, 40]))
def test_a_canary_that_fails_more_is_never_judged_better(seed, requests):
    stable = side(f"stable {seed}", requests=requests, intervals=24)

    found = [
        SEVERITY.index(
            verdict_of(
                Metric.SURVIVAL,
                side(f"canary {seed}", requests=requests, intervals=24, failing=share),
                stable,
            )
        )
        for share in (0.0, 0.3, 1.0)
    ]

    assert found == sorted(found)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.sampled_from([0.001, 0.5, 7.0]))
def test_the_unit_of_time_does_not_matter(seed, factor):
    stable = side(f"stable {seed}", intervals=24)
    canary = side(f"canary {seed}", intervals=24, ttft=0.3)

    one = measured(Metric.TTFT_P95, canary, stable)
    other = measured(Metric.TTFT_P95, scaled(canary, factor), scaled(stable, factor))

    assert other.verdict is one.verdict
    assert other.p_value == pytest.approx(one.p_value, rel=1e-6)
    assert other.canary == pytest.approx(one.canary * factor)


@pytest.mark.parametrize("requests", [37, 60, 100, 233, 600])
def test_an_equal_canary_that_has_passed_stays_passed_while_nothing_changes(requests):
    """Intervals that are all alike have no scatter; what arithmetic leaves is none."""
    counts = tuple(requests * part for part in (0.2, 0.5, 0.25, 0.05, 0.0))
    alike = {"ttft": Histogram((0.1, 0.2, 0.4, 0.8), counts)}
    both = side("alike", requests=0, intervals=120, fixed=alike)

    for metric in (Metric.TTFT_P50, Metric.TTFT_P95):
        found = [verdict_of(metric, both[:seen], both[:seen]) for seen in range(4, 121)]
        passed = found.index(Verdict.PASS)
        assert set(found[:passed]) <= {Verdict.INCONCLUSIVE}
        assert set(found[passed:]) == {Verdict.PASS}


def test_bets_on_counts_call_an_equal_side_worse_no_oftener_than_said():
    """All looks of one run count as one chance; the sides' shares of the requests change."""
    wrong = 0
    for run in range(RUNS // 2):
        random, tallies = Random(f"counts {run}"), []
        for index in range(24):
            weight = 0.05 if index < 12 else 0.4
            hit = [random.random() < weight for _ in range(random.randrange(4))]
            tallies.append(Tally(sum(hit), len(hit) - sum(hit), 100 * weight, 100 * (1 - weight)))
            if betting.chance(betting.of_counts(tallies, math.inf)) <= RATE:
                wrong += 1
                break

    assert wrong <= RUNS // 2 * RATE


def test_bets_on_drift_call_an_equal_mean_worse_no_oftener_than_said():
    wrong = 0
    for run in range(RUNS):
        random, total = Random(f"drift {run}"), 0.0
        for index in range(1, 400):
            total += random.gauss(0, 1)
            if betting.chance(betting.of_drift(total / math.sqrt(index), index, 10)) <= RATE:
                wrong += 1
                break

    assert wrong <= RUNS * RATE


@pytest.mark.parametrize("wander", [0.0, 0.8])
def test_a_difference_is_as_uncertain_as_it_is_said_to_be(wander):
    """Sides that wander on their own for some intervals at a time are no difference."""
    beyond = 0
    for run in range(RUNS):
        random, strata, level = Random(f"wander {run}"), [], 0.0
        for _ in range(40):
            level = wander * level + math.sqrt(1 - wander**2) * random.gauss(0, 1)
            canary = 40 * 0.5 + 5 * level
            strata.append(Stratum(canary, 40.0, 500.0, 1000.0))
        beyond += shares.compare(strata).z > limits.CERTAIN

    assert beyond / RUNS <= 2 * (1 - limits.LEVEL) + 0.01


def test_an_equal_canary_is_hardly_ever_aborted():
    """Thirty rollouts with a look every two minutes; the bench has thousands."""
    aborted = 0
    for run in range(30):
        canary = side(f"canary {run}", requests=6, intervals=32, failing=0.01)
        stable = side(f"stable {run}", requests=20, intervals=32, failing=0.01)
        aborted += any(
            judge(EVERYTHING, canary[:seen], stable[:seen], Look()).verdict is Verdict.FAIL
            for seen in range(4, 33, 4)
        )

    assert aborted <= 1


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_a_quantile_has_its_share_of_times_above_it(share):
    histogram = side("one", requests=200, intervals=1)[0].ttft

    at = histograms.quantile(histogram, share)

    assert histograms.above(histogram, at) == pytest.approx((1 - share) * histogram.total)


def test_gates_of_two_versions_may_have_different_bounds():
    few, many = Histogram((1.0,), (1.0, 0.0)), Histogram((1.0, 2.0), (1.0, 9.0, 0.0))

    assert histograms.merged([few, many, few]) == many
    assert histograms.merged([]) is None


def slower(evidence, buckets):
    """Return a side whose times are all some buckets longer."""
    moved = []
    for one in evidence:
        counts = one.ttft.counts
        kept = counts[: len(counts) - buckets]
        last = sum(counts[len(counts) - buckets :])
        shifted = (*[0.0] * buckets, *kept[:-1], kept[-1] + last)
        moved.append(dataclasses.replace(one, ttft=Histogram(BOUNDS, shifted)))
    return moved


def scaled(evidence, factor):
    """Return a side with another unit of time."""
    bounds = tuple(bound * factor for bound in BOUNDS)
    return [dataclasses.replace(one, ttft=Histogram(bounds, one.ttft.counts)) for one in evidence]
