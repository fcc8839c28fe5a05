"""What is known of a revision in a stretch of time, and what is concluded from it. Values only.

Evidence comes as aligned intervals: `canary[i]` and `baseline[i]` are the same stretch of the
clock. Sides are compared within intervals, so load that drifts and weights that change hit both
alike, and the spread between intervals says how much chance there is in what is measured. So
evidence is collected over the whole rollout, from the end of the warm-up on, across its steps.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import accumulate


class Metric(StrEnum):
    """What is judged, by the names of `spec.rollout`.

    Attributes:
        TTFT_P50: Median of the time to the first token.
        TTFT_P95: Its 95th percentile.
        TPOT_P50: Median of the time for each further token.
        TPOT_P95: Its 95th percentile.
        SURVIVAL: Share of the requests that were admitted and ended well.
        REFUSALS: Requests that engines refused (4xx), per 1,000 requests.
        ABANDONMENTS: Requests whose clients left before the first byte, per 1,000 requests.
        RESTARTS: Engines that ended by themselves, per 1,000 requests.
        PREEMPTIONS: Requests that engines preempted, per 1,000 requests.
        PREFIX_HIT_RATE: Share of the prompt tokens that prefix caches had; for information.
        KV_DRIFT: Measured against planned tokens of KV, in percent.
        MEMORY_GROWTH: Growth of a pod's memory, in percent of its size per hour.
    """

    TTFT_P50 = "ttftP50"
    TTFT_P95 = "ttftP95"
    TPOT_P50 = "tpotP50"
    TPOT_P95 = "tpotP95"
    SURVIVAL = "survival"
    REFUSALS = "refusals"
    ABANDONMENTS = "abandonments"
    RESTARTS = "restarts"
    PREEMPTIONS = "preemptions"
    PREFIX_HIT_RATE = "prefixHitRate"
    KV_DRIFT = "kvDrift"
    MEMORY_GROWTH = "memoryGrowth"


class Verdict(StrEnum):
    """What a measurement or a judgement says.

    Attributes:
        PASS: What would matter is ruled out.
        FAIL: The canary is worse, and it is not chance.
        INCONCLUSIVE: Too little is known to say either; wait.
        ERROR: What was asked could not be understood, so nothing is known.
    """

    PASS = "Pass"
    FAIL = "Fail"
    INCONCLUSIVE = "Inconclusive"
    ERROR = "Error"


@dataclass(frozen=True)
class Histogram:
    """Counts by bucket, not cumulated. Counts may be fractions: Prometheus extrapolates.

    Attributes:
        bounds: Upper bounds in seconds, rising, without the last one, which is infinity.
        counts: Observations of each bucket; one more than bounds.
    """

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no histogram.

        Raises:
            ValueError: The counts do not fit the bounds, or a count is negative or no number.
        """
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"{len(self.counts)} counts for {len(self.bounds)} bounds")
        if any(not math.isfinite(count) or count < 0 for count in self.counts):
            raise ValueError(f"counts must be numbers from 0 up, not {self.counts}")

    @property
    def total(self) -> float:
        """How many observations there are."""
        return self.from_bucket[0]

    @cached_property
    def from_bucket(self) -> tuple[float, ...]:
        """How many observations lie in each bucket and those after it."""
        return tuple(reversed(tuple(accumulate(reversed(self.counts)))))


@dataclass(frozen=True)
class Evidence:
    """One side (all pods of a revision) in one interval. None: it is not known, which is not 0.

    Attributes:
        at: Begin of the interval, seconds since 1970.
        seconds: Its length.
        ended_well: Requests that were admitted and ended well.
        ended_badly: Requests that were admitted, and were not served for no fault of their client.
        refused: Requests that engines refused.
        abandoned: Requests whose clients left before the first byte.
        ttft: Times to first tokens, as the gates saw them.
        tpot: Times between tokens, as the gates saw them.
        preemptions: Requests that the engines preempted.
        restarts: Engines that ended by themselves, by cause ("OOM", "crash"); {} is none.
        prefix_hit_tokens: Prompt tokens that prefix caches had.
        prefix_query_tokens: Prompt tokens that prefix caches were asked for.
        kv_drift_percent: Measured over planned tokens of KV, of the slice that is off most.
        memory_bytes: Memory of the pod that has most, at the end of the interval.
        faults: Metrics whose query gave no or several series, with what was asked and found.
    """

    at: float
    seconds: float
    ended_well: float | None = None
    ended_badly: float | None = None
    refused: float | None = None
    abandoned: float | None = None
    ttft: Histogram | None = None
    tpot: Histogram | None = None
    preemptions: float | None = None
    restarts: Mapping[str, float] | None = None
    prefix_hit_tokens: float | None = None
    prefix_query_tokens: float | None = None
    kv_drift_percent: float | None = None
    memory_bytes: float | None = None
    faults: Mapping[Metric, str] = field(default_factory=dict)

    @property
    def ended(self) -> float | None:
        """Requests that ended well or badly; None where a part of them is not known."""
        if self.ended_well is None or self.ended_badly is None:
            return None
        return self.ended_well + self.ended_badly

    @property
    def requests(self) -> float | None:
        """Requests that came, refused and abandoned ones included as far as they are known."""
        if self.ended is None:
            return None
        return self.ended + (self.refused or 0.0) + (self.abandoned or 0.0)


@dataclass(frozen=True)
class Bound:
    """What a metric may be, in the metric's own unit (see `Metric`). None: no such bound.

    Attributes:
        absolute: What it must not be worse than, whatever the baseline is: the SLO.
        margin: How much worse than the baseline must be caught. Times: a share, 0.2 is 20 %.
            Counts: a share as well, 1 is twice as many, but see `rules.LEAST_MARGINS`. Survival: a
            difference of shares. Growth: percent per hour.
    """

    absolute: float | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Rule:
    """How one metric is judged.

    Attributes:
        bound: What it may be.
        min_samples: Fewer samples than this, on either side, are no evidence.
    """

    bound: Bound
    min_samples: int


Rules = Mapping[Metric, Rule]
"""The metrics that are judged. What is not in it is not looked at."""


@dataclass(frozen=True)
class Look:
    """Which look at a rollout this is.

    As evidence is collected, looks cost nothing: their number is not limited and not needed.
    Evidence that begins anew is one more chance of a false alarm, so it gets less of the rate, and
    so does that of a single step.

    Attributes:
        stretch: 1, and one more each time that the evidence of this rollout began anew.
        step: Of which later step only the own evidence is looked at; 0 for all of it.
        false_aborts: Share of rollouts with an equal canary that may be aborted, in all.
    """

    stretch: int = 1
    step: int = 0
    false_aborts: float = 0.01


@dataclass(frozen=True)
class Measurement:
    """What is said of one metric, with the numbers that it rests on.

    Attributes:
        canary: The metric of the canary in its own unit; None where it is not known.
        baseline: The same of the baseline.
        bound: What it was held against.
        samples: What the canary's value rests on: observations, requests, or intervals.
        baseline_samples: What the baseline's rests on; None where nobody counted.
        p_value: Chance of at least such a difference, at any look, of an equal canary. None
            where nothing was tested.
        message: A sentence with the numbers.
    """

    metric: Metric
    verdict: Verdict
    canary: float | None
    baseline: float | None
    bound: Bound
    samples: float
    p_value: float | None
    message: str
    baseline_samples: float | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict on a canary. Fail if one metric fails, Pass only if all pass.

    Attributes:
        measurements: One for each rule, in the order of `Metric`.
        message: What decides, in a sentence.
    """

    verdict: Verdict
    measurements: Sequence[Measurement]
    message: str
