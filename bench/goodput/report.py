"""Prints runs as tables, and what came of the goals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.goodput.mixes import TOLD
from bench.goodput.regimes import GATE
from bench.goodput.score import Score, median

GOODPUT_GOAL = 0.95
"""Of the best that any other regime reached, at least."""
REFUSAL_GOAL_SECONDS = 0.010
PREEMPTIONS_GOAL = 0.01
"""Of the requests that were served, at most."""
HEADER = (
    f"  {'':28} {'req/s good':>17} {'tok/s good':>15} {'TTFT p50':>8} {'p99 s':>6}"
    f" {'preempt':>7} {'refused/s':>9} {'p50':>6} {'p99 ms':>7} {'attempts':>8}"
    f" {'short':>6} {'long':>6} {'failed':>6}"
)


@dataclass(frozen=True)
class Run:
    """One run of one regime."""

    mix: str
    load: float
    regime: str
    repeat: int
    score: Score


def table(runs: Sequence[Run]) -> None:
    """Print one mix: for each load the regimes, with the spread of goodput over repeats."""
    print(f"\nmix {runs[0].mix}: {TOLD[runs[0].mix]}")
    for load in sorted({run.load for run in runs}):
        some = [run for run in runs if run.load == load]
        asked = median([run.score for run in some]).asked
        print(f"\n  {load:g}x capacity, {asked:.1f} requests/s asked\n{HEADER}")
        for regime in dict.fromkeys(run.regime for run in some):
            _row(regime, [run.score for run in some if run.regime == regime])
        _ratios(some)


def _row(name: str, scores: Sequence[Score]) -> None:
    middle = median(scores)
    goodputs = [one.goodput for one in scores]
    tokens = [one.good_tokens for one in scores]
    is_spread = len(scores) > 1
    requests_spread = f" ({min(goodputs):.1f}-{max(goodputs):.1f})" if is_spread else ""
    tokens_spread = f" ({min(tokens):.0f}-{max(tokens):.0f})" if is_spread else ""
    print(
        f"  {name:28} {f'{middle.goodput:.2f}{requests_spread}':>17}"
        f" {f'{middle.good_tokens:.0f}{tokens_spread}':>15}"
        f" {middle.ttft_p50:8.2f} {middle.ttft_p99:6.2f} {middle.preemptions:7.0f}"
        f" {middle.refused:9.1f} {1e3 * middle.refusal_p50:6.1f} {1e3 * middle.refusal_p99:7.1f}"
        f" {middle.attempts:8.2f} {middle.served_short:6.0%} {middle.served_long:6.0%}"
        f" {middle.failed:6.0f}"
    )


def _ratios(runs: Sequence[Run]) -> None:
    medians = _medians(runs)
    ours = medians.pop(GATE, None)
    if ours is None or not medians:
        return
    parts = []
    for what in ("goodput", "good_tokens"):
        name, best = max(
            ((name, getattr(one, what)) for name, one in medians.items()), key=lambda pair: pair[1]
        )
        ratio = f"{getattr(ours, what) / best:.2f}x" if best else "no other had any"
        unit = "requests" if what == "goodput" else "tokens"
        parts.append(f"{unit} {ratio} of the best other ({name})")
    print(f"  gate: {', '.join(parts)}")


def verdict(runs: Sequence[Run], slo_seconds: float) -> bool:
    """Print how each mix met the goals at its highest load; tell whether all were met."""
    print("\ngoals at the highest load")
    is_met = True
    for mix in dict.fromkeys(run.mix for run in runs):
        some = [run for run in runs if run.mix == mix]
        top = max(run.load for run in some)
        ours = median([run.score for run in some if run.load == top and run.regime == GATE])
        others = [
            score
            for load in {run.load for run in some}
            for name, score in _medians([run for run in some if run.load == load]).items()
            if name != GATE
        ]
        for name, value, goal, is_least in (
            (
                "requests, times the best of any setting at any load",
                _ratio(ours.goodput, [other.goodput for other in others]),
                GOODPUT_GOAL,
                True,
            ),
            (
                "tokens, the same",
                _ratio(ours.good_tokens, [other.good_tokens for other in others]),
                GOODPUT_GOAL,
                True,
            ),
            ("TTFT p99 of the admitted, s", ours.ttft_p99, slo_seconds, False),
            (
                "preemptions for each request admitted",
                ours.preempted_share,
                PREEMPTIONS_GOAL,
                False,
            ),
            ("refusal p50, s", ours.refusal_p50, REFUSAL_GOAL_SECONDS, False),
        ):
            good = math.isnan(value) or (value >= goal if is_least else value <= goal)
            is_met &= good
            print(f"  {'met   ' if good else 'MISSED'} {mix:10} {name}: {value:.3f} ({goal:g})")
    return is_met


def _ratio(ours: float, others: Sequence[float]) -> float:
    best = max(others, default=0.0)
    return ours / best if best else math.nan


def _medians(runs: Sequence[Run]) -> dict[str, Score]:
    names = dict.fromkeys(run.regime for run in runs)
    return {name: median([run.score for run in runs if run.regime == name]) for name in names}
