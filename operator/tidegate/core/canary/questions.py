"""What Prometheus is asked to judge a canary: counts by revision, interval by interval.

Both sides come from one range query for each family, so their intervals are the same. The labels
are those of our own scrape configuration, as in `core.overload.queries`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidegate.core.analysis import timeline
from tidegate.core.analysis.evidence import Metric
from tidegate.core.overload.queries import ENGINES_JOB, GATES_JOB

Family = Literal["requests", "ttft", "tpot", "preemptions", "prefix", "memory"]

METRICS_OF: Mapping[Family, frozenset[Metric]] = {
    "requests": frozenset({Metric.SURVIVAL, Metric.REFUSALS, Metric.ABANDONMENTS}),
    "ttft": frozenset({Metric.TTFT_P50, Metric.TTFT_P95}),
    "tpot": frozenset({Metric.TPOT_P50, Metric.TPOT_P95}),
    "preemptions": frozenset({Metric.PREEMPTIONS}),
    "prefix": frozenset({Metric.PREFIX_HIT_RATE}),
    "memory": frozenset({Metric.MEMORY_GROWTH}),
}
"""What is judged by each family. What gates refuse has no revision; engines' refusals have."""
METRICS = frozenset[Metric]().union(*METRICS_OF.values())
"""What gates and engines tell by revision."""
TOLD_APART_BY: Mapping[Family, str] = {
    "requests": "outcome",
    "ttft": "le",
    "tpot": "le",
    "preemptions": "revision",
    "prefix": "stat",
    "memory": "revision",
}
"""The label in which the series of one revision differ: each value is there once."""

_SCRAPES_IN_AN_INTERVAL = 4
"""An increase needs two samples: four scrapes bear the loss of one, and a late one."""


@dataclass(frozen=True)
class Window:
    """The intervals: `ends` are evaluated, each looks back `seconds`."""

    first_end: float
    last_end: float
    seconds: int


@dataclass(frozen=True)
class Question:
    """A range query for one family."""

    family: Family
    promql: str


def least_seconds(wished_seconds: float, scrape_interval_seconds: float) -> int:
    """Return how long an interval is at least: as wished, but with enough scrapes in it."""
    return round(max(wished_seconds, scrape_interval_seconds * _SCRAPES_IN_AN_INTERVAL))


def windows(since: float, now: float, shortest_seconds: int) -> tuple[Window, ...]:
    """Return the intervals between two times, in order; none while not even one is over.

    Of a rollout that takes hours the old ones are long, in a window of their own.
    """
    parts = timeline.parts(now - since, shortest_seconds)
    ends = [since + begin for begin, _ in parts[1:]] + [now]
    found = (
        _window(since + begin, end, seconds)
        for (begin, seconds), end in zip(parts, ends, strict=True)
    )
    return tuple(one for one in found if one is not None)


def _window(begin: float, end: float, seconds: int) -> Window | None:
    count = int((end - begin) // seconds)
    if count < 1:
        return None
    return Window(begin + seconds, begin + seconds * count, seconds)


def of(
    namespace: str, deployment: str, revisions: tuple[str, str], seconds: int
) -> tuple[Question, ...]:
    """Return the questions about two revisions of a deployment.

    Requests are those that a revision was asked first, by what its pod made of them: a second try
    makes good what a client sees, and not what a pod did. Gates of a version before tell only how
    requests ended; where no gate tells more, that is taken, for both sides.
    """
    chosen = ",".join(
        [
            f"namespace={json.dumps(namespace)}",
            f"llmdeployment={json.dumps(deployment)}",
            f"revision=~{json.dumps('|'.join(revisions))}",
        ]
    )
    gates = f'{{job="{GATES_JOB}",{chosen}}}[{seconds}s]'
    first = f'{{job="{GATES_JOB}",attempt="first",{chosen}}}[{seconds}s]'
    engines = f'{{job="{ENGINES_JOB}",{chosen}}}[{seconds}s]'
    return (
        Question(
            "requests",
            f"{_sum('revision, outcome', 'tidegate_gate_visits_total', first)} or on () "
            f"{_sum('revision, outcome', 'tidegate_gate_ended_total', gates)}",
        ),
        Question("ttft", _sum("revision, le", "tidegate_gate_ttft_seconds_bucket", gates)),
        Question("tpot", _sum("revision, le", "tidegate_gate_inter_token_seconds_bucket", gates)),
        Question("preemptions", _sum("revision", "vllm:num_preemptions_total", engines)),
        Question(
            "prefix",
            f"{_part('hits', _sum('revision', 'vllm:prefix_cache_hits_total', engines))} or "
            f"{_part('queries', _sum('revision', 'vllm:prefix_cache_queries_total', engines))}",
        ),
        Question(
            "memory",
            f"max by (revision) (max_over_time(process_resident_memory_bytes{engines}))",
        ),
    )


def _sum(labels: str, family: str, selector: str) -> str:
    return f"sum by ({labels}) (increase({family}{selector}))"


def _part(name: str, promql: str) -> str:
    return f'label_replace({promql}, "stat", "{name}", "", "")'
