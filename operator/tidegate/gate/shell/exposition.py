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

_SAMPLE = re.compile(r"(\{.*\})?[ \t]+([^ \t]+)(?:[ \t]+-?\d+)?[ \t]*")
"""What follows a name on its line: labels, a value, a time stamp."""
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
    """Find the lines of each name: to search for few texts is ten times quicker than to scan."""
    found: dict[str, _Series] = {}
    page = f"\n{page}\n"
    for name in (*NAMES.values(), *OLD_NAMES):
        start = page.find(f"\n{name}")
        while start >= 0:
            end = page.index("\n", start + 1)
            match = _SAMPLE.fullmatch(page, start + 1 + len(name), end)
            if match is not None:
                series = found.setdefault(name, {})
                series[match[1] or ""] = None if (match[1] or "") in series else _number(match[2])
            start = page.find(f"\n{name}", end)
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
