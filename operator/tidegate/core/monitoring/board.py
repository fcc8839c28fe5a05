"""What a dashboard shows: queries with a title and a unit, in rows. No word of Grafana's format."""

from dataclasses import dataclass

from tidegate.core.monitoring.promql import engine, gates

RATE = "$__rate_interval"
"""Grafana's window that holds enough scrapes."""
ONE = 'namespace=~"$namespace", llmdeployment=~"$llmdeployment"'
"""Matchers of the deployment that is chosen on a dashboard."""
ONE_POOL = f'{ONE}, pool=~"$pool"'


@dataclass(frozen=True)
class Query:
    """A query and how its series are named."""

    promql: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A graph, or a single number.

    Attributes:
        title: Its title.
        about: What to read from it.
        queries: What it shows.
        unit: Grafana's name of the unit.
        top: The end of the axis, where there is a natural one.
        is_number: Shows the last value only.
        by_pool: Shown once for each pool, side by side.
    """

    title: str
    about: str
    queries: tuple[Query, ...]
    unit: str = "short"
    top: float | None = None
    is_number: bool = False
    by_pool: bool = False


@dataclass(frozen=True)
class Row:
    """Panels beside each other under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Board:
    """A dashboard; `variables` are the labels that are chosen on it, from widest to narrowest."""

    name: str
    title: str
    about: str
    variables: tuple[str, ...]
    rows: tuple[Row, ...]


def of_gates(metric: str) -> str:
    """Return a metric of the chosen deployment's gates."""
    return gates(metric, ONE)


def rate(by: str, metric: str, matchers: str = "") -> str:
    """Return a rate of a metric of the chosen deployment's gates, summed by labels."""
    more = f"{ONE}, {matchers}" if matchers else ONE
    return f"sum by ({by}) (rate({gates(metric, more)}[{RATE}]))"


def engine_rate(by: str, metric: str) -> str:
    """Return a rate of a metric of the chosen pool's engines, summed by labels."""
    return f"sum by ({by}) ({engine(metric, RATE, 'rate', ONE_POOL)})"


def quantile(share: float, buckets: str) -> str:
    """Return a quantile of summed buckets."""
    return f"histogram_quantile({share}, {buckets})"


def quantiles(buckets: str, by: str = "") -> tuple[Query, ...]:
    """Return p50, p95 and p99 of summed buckets."""
    suffix = f" {{{{{by}}}}}" if by else ""
    return tuple(
        Query(quantile(share, buckets), f"p{share * 100:.0f}{suffix}")
        for share in (0.5, 0.95, 0.99)
    )
