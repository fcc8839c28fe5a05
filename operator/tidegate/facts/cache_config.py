"""The engine's own account of its KV cache: `vllm:cache_config_info`, whose labels are facts."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

NAME = "vllm:cache_config_info"
_SERIES = re.compile(rf"^{NAME}\{{(?P<labels>.*)\}} \S+", re.MULTILINE)
_LABEL = re.compile(r'(?P<name>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
_LONGEST_NUMBER = 20


@dataclass(frozen=True)
class CacheConfig:
    """The KV cache of one engine.

    `size_tokens` is the concurrency at the engine's limit times that limit, as the engine counts.
    `given_bytes` is what it was told to take on each GPU, None where it measured what is left.
    """

    blocks: int
    block_size: int
    size_tokens: int
    max_concurrency: float
    dtype: str
    utilization: float
    given_bytes: int | None


def read(metrics: str) -> CacheConfig | None:
    """Read an engine's metrics page; None where it does not tell of a KV cache that makes sense.

    Of several engines behind one page the one with the fewest blocks counts.
    """
    found = [_config(dict(_LABEL.findall(match["labels"]))) for match in _SERIES.finditer(metrics)]
    told = [config for config in found if config is not None]
    return min(told, key=lambda config: config.blocks, default=None)


def _config(labels: Mapping[str, str]) -> CacheConfig | None:
    blocks, block_size = _count(labels, "num_gpu_blocks"), _count(labels, "block_size")
    size_tokens = _count(labels, "kv_cache_size_tokens")
    concurrency = _amount(labels, "kv_cache_max_concurrency")
    utilization = _amount(labels, "gpu_memory_utilization")
    if not blocks or not block_size or not size_tokens or concurrency is None:
        return None
    return CacheConfig(
        blocks=blocks,
        block_size=block_size,
        size_tokens=size_tokens,
        max_concurrency=concurrency,
        dtype=labels.get("cache_dtype", ""),
        utilization=utilization or 0.0,
        given_bytes=_count(labels, "kv_cache_memory_bytes"),
    )


def _count(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    is_count = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if is_count else None


def _amount(labels: Mapping[str, str], name: str) -> float | None:
    try:
        value = float(labels.get(name, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
