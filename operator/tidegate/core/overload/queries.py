"""What Prometheus is asked: one query for each signal, for all deployments at once.

Queries are data. The labels are those that our own scrape configuration sets: on engines `job`,
`namespace`, `pod`, `llmdeployment`, `pool`; on gates `job`, `namespace`, `llmdeployment`,
`instance`, beside what a gate exports itself. Each answer tells several figures, told apart by the
label `stat`; `at` is the time of the oldest sample in them, `copies` how many series claim to be
the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tidegate.facts import engines

ENGINES_JOB = "tidegate-engines"
GATES_JOB = "tidegate-gates"
SHORTEST_WINDOW_SECONDS = 60
QUANTILE = 0.95

Name = Literal["kv", "backlog", "preemptions", "ttft", "tpot", "prefix", "load"]

_DEPLOYMENT = "namespace, llmdeployment"
_POOL = f"{_DEPLOYMENT}, pool"
_POD = f"{_POOL}, pod"
_ENGINE = f"{_POD}, engine"
_SCRAPES_IN_A_WINDOW = 4
"""A rate needs two samples: four scrapes bear the loss of one, and a late one."""
_QUANTILE_WINDOWS = 2
"""Windows that a quantile looks back: it needs more samples than a rate."""


@dataclass(frozen=True)
class Query:
    """A question; `tells` says what its answer is about."""

    name: Name
    tells: str
    promql: str


def all_of(scrape_interval_seconds: float) -> tuple[Query, ...]:
    """Return the questions of one tick; rates look back a minute, or four scrapes if longer."""
    window = window_seconds(scrape_interval_seconds)
    long = window * _QUANTILE_WINDOWS
    return (
        Query("kv", "use of the KV cache of each engine, and as gates saw it", _kv_usage()),
        Query(
            "backlog",
            "prompt tokens that wait at the gates and on each pod, and its speed",
            _backlog(window),
        ),
        Query("preemptions", "requests that engines preempted in a minute", _preemptions(window)),
        Query("ttft", "time to the first token", _quantile("tidegate_gate_ttft_seconds", long)),
        Query(
            "tpot",
            "time for each further token",
            _quantile("tidegate_gate_inter_token_seconds", long),
        ),
        Query("prefix", "prompt tokens asked of the prefix caches, and had", _prefix(window)),
        Query("load", "requests that come, and the tokens that gates hold for them", _load(window)),
    )


def window_seconds(scrape_interval_seconds: float) -> int:
    """Return how far rates look back."""
    scrapes = round(scrape_interval_seconds * _SCRAPES_IN_A_WINDOW)
    return max(SHORTEST_WINDOW_SECONDS, scrapes)


def _kv_usage() -> str:
    usage, seen = _engines("vllm:kv_cache_usage_perc"), _gates("tidegate_gate_kv_usage")
    return _figures(
        value=f"max by ({_ENGINE}) ({_any(usage)})",
        at=f"min by ({_ENGINE}) ({_times(usage)})",
        copies=f"count by ({_ENGINE}) ({_any(usage)})",
        seen=f"avg by ({_POD}) ({seen})",
        seen_at=f"min by ({_POD}) (timestamp({seen}))",
    )


def _backlog(window: int) -> str:
    tokens = _gates("tidegate_gate_prefill_backlog_tokens")
    speed = _gates("tidegate_gate_prefill_tokens_per_second")
    queued = _gates("tidegate_gate_queued_prompt_tokens")
    gates = _gates("tidegate_gate_gates")
    waiting = _engines("vllm:num_requests_waiting")
    seconds = _increase(_engines("vllm:request_prefill_time_seconds_sum"), window, _POOL)
    count = _increase(_engines("vllm:request_prefill_time_seconds_count"), window, _POOL)
    return _figures(
        tokens=f"sum by ({_POD}) ({tokens})",
        speed=f"avg by ({_POD}) ({speed})",
        at=f"min by ({_POD}) (timestamp({tokens}))",
        copies=f"max by ({_POD}) (count by ({_POD}, instance) ({tokens}))",
        queued=f"sum by ({_POOL}) ({queued})",
        queued_at=f"min by ({_POOL}) (timestamp({queued}))",
        gates=f"max by ({_DEPLOYMENT}) ({gates})",
        told=f"count by ({_DEPLOYMENT}) ({gates})",
        waiting=f"sum by ({_POOL}) ({_any(waiting)})",
        waiting_at=f"min by ({_POOL}) ({_times(waiting)})",
        prefill=f"{seconds} / {count}",
    )


def _preemptions(window: int) -> str:
    count = _engines("vllm:num_preemptions_total")
    return _figures(
        value=f"{_increase(count, window, _POOL)} * {SHORTEST_WINDOW_SECONDS} / {window}",
        at=f"min by ({_POOL}) ({_times(count)})",
        copies=f"max by ({_POOL}) (count by ({_ENGINE}) ({_any(count)}))",
    )


def _prefix(window: int) -> str:
    asked = _engines("vllm:prefix_cache_queries_total")
    had = _engines("vllm:prefix_cache_hits_total")
    return _figures(
        had=_increase(had, window, _POOL),
        asked=_increase(asked, window, _POOL),
        at=f"min by ({_POOL}) ({_times(asked)})",
        copies=f"max by ({_POOL}) (count by ({_ENGINE}) ({_any(asked)}))",
    )


def _quantile(histogram: str, window: int) -> str:
    buckets, count = _gates(f"{histogram}_bucket"), _gates(f"{histogram}_count")
    rate = f"sum by ({_DEPLOYMENT}, le) (rate({buckets}[{window}s]))"
    return _figures(
        value=f"histogram_quantile({QUANTILE}, {rate})",
        samples=f"sum by ({_DEPLOYMENT}) (increase({count}[{window}s]))",
        at=f"min by ({_DEPLOYMENT}) (timestamp({count}))",
    )


def _load(window: int) -> str:
    requests = f'tidegate_gate_requests_total{{job="{GATES_JOB}", outcome!="answered"}}'
    admitted = _gates("tidegate_gate_admitted_total")
    reserved = _gates("tidegate_gate_tokens_reserved")
    none = f"0 * sum by ({_DEPLOYMENT}) ({reserved})"  # gates that tell, and were asked by nobody
    return _figures(
        requests=f"sum by ({_DEPLOYMENT}) (rate({requests}[{window}s])) or {none}",
        admitted=f"sum by ({_DEPLOYMENT}) (rate({admitted}[{window}s])) or {none}",
        reserved=f"sum by ({_POOL}) ({reserved})",
        capacity=f"sum by ({_POOL}) ({_gates('tidegate_gate_tokens_capacity')})",
        at=f"min by ({_DEPLOYMENT}) (timestamp({reserved}))",
    )


def _figures(**expressions: str) -> str:
    """Join expressions to one query whose series carry the names as `stat`."""
    return " or ".join(
        f'label_replace({expression}, "stat", "{name}", "", "")'
        for name, expression in expressions.items()
    )


def _gates(metric: str) -> str:
    return f'{metric}{{job="{GATES_JOB}"}}'


def _engines(metric: str) -> tuple[str, ...]:
    """Return the selectors of a metric under each name that engine versions give it."""
    names = engines.metric_generations(metric)
    return tuple(f'{name}{{job="{ENGINES_JOB}"}}' for name in names)


def _any(selectors: Sequence[str]) -> str:
    return " or ".join(selectors)


def _times(selectors: Sequence[str]) -> str:
    """Return the samples' own times; of an `or` Prometheus would tell the time of the query."""
    return " or ".join(f"timestamp({selector})" for selector in selectors)


def _increase(selectors: Sequence[str], window: int, by: str) -> str:
    increases = " or ".join(f"increase({selector}[{window}s])" for selector in selectors)
    return f"sum by ({by}) ({increases})"
