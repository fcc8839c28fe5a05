"""Evidence by the line: intervals of a side that is as good or as bad as a test wants it."""

import math
from bisect import bisect_left
from random import Random

from tidegate.core.analysis.evidence import Evidence, Histogram, Look
from tidegate.core.analysis.judge import judge
from tidegate.core.analysis.rules import DEFAULTS

BOUNDS = tuple(0.01 * 1.2**step for step in range(45))
SECONDS = 30.0
MEMORY_BYTES = 20 * 2**30
EVERYTHING = dict(DEFAULTS)


def times(random, number, middle, spread=0.6, bounds=BOUNDS):
    """Return a histogram of lognormal times."""
    counts = [0.0] * (len(bounds) + 1)
    for _ in range(number):
        counts[bisect_left(bounds, random.lognormvariate(math.log(middle), spread))] += 1
    return Histogram(bounds, tuple(counts))


def _some(random, number, share):
    return sum(random.random() < share for _ in range(number)) if share else 0


def side(
    seed,
    requests=20,
    intervals=40,
    ttft=0.25,
    tpot=0.025,
    failing=0.0,
    refused=0.0,
    abandoned=0.0,
    preempted=0.02,
    restarts=0,
    growth_percent_per_hour=0.0,
    fixed=None,
):
    """Return a side's intervals: `restarts` of them with one each, all with the `fixed` fields."""
    random = Random(seed)
    evidences = []
    for index in range(intervals):
        refusals = _some(random, requests, refused)
        left = _some(random, requests - refusals, abandoned)
        answers = requests - refusals - left
        bad = sum(random.random() < failing for _ in range(answers))
        grown = 1 + growth_percent_per_hour / 100 * index * SECONDS / 3600
        known = {
            "ended_well": float(answers - bad),
            "ended_badly": float(bad),
            "refused": float(refusals),
            "abandoned": float(left),
            "ttft": times(random, answers, ttft),
            "tpot": times(random, answers, tpot, 0.3),
            "preemptions": float(sum(random.random() < preempted for _ in range(requests))),
            "restarts": {"OOM": 1.0} if index < restarts else {},
            "prefix_hit_tokens": 300.0,
            "prefix_query_tokens": 1000.0,
            "kv_drift_percent": -1.0,
            "memory_bytes": MEMORY_BYTES * grown * random.gauss(1, 0.002),
        }
        evidences.append(
            Evidence(at=SECONDS * index, seconds=SECONDS, **{**known, **(fixed or {})})
        )
    return evidences


def verdict_of(metric, canary, baseline, rule=None):
    """Return the verdict on one metric that is judged alone."""
    return measured(metric, canary, baseline, rule).verdict


def measured(metric, canary, baseline, rule=None):
    """Return what is said of one metric that is judged alone."""
    rules = {metric: rule or EVERYTHING[metric]}
    return judge(rules, canary, baseline, Look()).measurements[0]
