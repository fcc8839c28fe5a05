"""Reads an engine's metrics page for the few families that the ledger wants.

Cheap on purpose: a page has 600 lines and every pod is read twice a second, so it is searched and
not parsed. What is missing, said twice, negative, NaN or infinite is None: no data is not zero.
"""

import math
import re
from collections.abc import Callable, Iterable

from tidegate.facts import cache_config
from tidegate.gate.exchange import Scrape

NAMES = {
    "kv_usage": "vllm:kv_cache_usage_perc",
    "running": "vllm:num_requests_running",
    "waiting": "vllm:num_requests_waiting",
    "preemptions": "vllm:num_preemptions_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
}
"""What is read, by the names that every engine version of the catalogue has."""
OLD_NAMES = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
}
"""Names of engines older than the catalogue, read where today's name is absent."""

_ANY = "|".join(map(re.escape, (*NAMES.values(), *OLD_NAMES)))
_SAMPLE = re.compile(rf"^({_ANY})(\{{[^\n]*\}})?[ \t]+([^ \t\n]+)(?:[ \t]+-?\d+)?[ \t]*$", re.M)
_MOST_ENGINES = 1024

_Series = dict[str, float | None]


def read(page: str, at: float) -> Scrape:
    """Read a page that was fetched at a time of the monotonic clock.

    Several data parallel engines behind one page: counts are summed; of the usage of the KV cache
    the highest counts and of the blocks the fewest, since a request lives on one engine.
    """
    families = _families(page)
    usage = _of(families, "kv_usage", max)
    blocks = cache_config.read(page)
    return Scrape(
        at=at,
        kv_usage=usage if usage is not None and usage <= 1 else None,
        num_gpu_blocks=blocks.blocks if blocks else None,
        running=_whole(_of(families, "running", sum)),
        waiting=_whole(_of(families, "waiting", sum)),
        preemptions=_of(families, "preemptions", sum),
        prefix_queries=_of(families, "prefix_queries", sum),
        prefix_hits=_of(families, "prefix_hits", sum),
    )


def _families(page: str) -> dict[str, _Series]:
    found: dict[str, _Series] = {}
    for name, labels, text in _SAMPLE.findall(page):
        series = found.setdefault(name, {})
        series[labels] = None if labels in series else _number(text)
    for old, name in OLD_NAMES.items():
        if old in found:
            found.setdefault(name, found[old])
    return found


def _of(
    families: dict[str, _Series], wanted: str, fold: Callable[[Iterable[float]], float]
) -> float | None:
    values = list(families.get(NAMES[wanted], {}).values())
    good = [value for value in values if value is not None]
    if not good or len(good) != len(values) or len(values) > _MOST_ENGINES:
        return None
    return fold(good)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
