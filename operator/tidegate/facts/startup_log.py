"""What an engine's start-up log says of memory, by the lines that each version prints.

`data/startup_log.json` lists patterns. Their groups are amounts in GiB, of one GPU:

- `weights`: all that was loaded, a draft model included.
- `peak`: activations of one step, with the estimate for CUDA graphs in it where the engine counts
  that (`counted`: it said so).
- `non_torch`: what the engine finds beside its tensors; `consumed` is weights and this together.
- `graphs`: what captured CUDA graphs took in the end; `graphs_estimate`: what was set aside.
- `kv`, `given`: what is left for KV, and what KV was told to take (then nothing is profiled).
- `total`: the card; `node_total`: the host, where the engine runs on CPUs.

Amounts have two decimals, so a term is known to some MiB. Every rank may print its own line: the
least KV counts and the most of everything else, as the fullest GPU decides.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tidegate.facts import failures, package_data

_GIB = 2**30
_LEAST = ("kv", "given", "total", "node_total")
"""Amounts of which the smallest of all ranks counts."""
_MOST_LINES = 20_000
_MOST_GIB = 2**20


@dataclass(frozen=True)
class StartupLog:
    """Bytes of each GPU, as an engine told them at its start; None is not told.

    `cuda_graphs_bytes` is what the engine takes from KV for them: its estimate where it makes one,
    else what they took. `is_profiled` is false where KV was given a size, or on CPUs.
    """

    weights_bytes: int | None = None
    activations_bytes: int | None = None
    non_torch_bytes: int | None = None
    cuda_graphs_bytes: int | None = None
    kv_bytes: int | None = None
    total_bytes: int | None = None
    is_profiled: bool = False


def read(log: str) -> StartupLog:
    """Read the start of an engine's log; what it does not tell is None."""
    found = _amounts(failures.clean(log))
    weights, peak = _bytes(found, "weights"), _bytes(found, "peak")
    estimate = _bytes(found, "graphs_estimate")
    consumed, non_torch = _bytes(found, "consumed"), _bytes(found, "non_torch")
    if non_torch is None and consumed is not None and weights is not None:
        non_torch = consumed - weights
    set_aside = (estimate or 0) if "counted" in found else 0
    graphs = estimate if "counted" in found else _bytes(found, "graphs")
    on_gpu = "node_total" not in found
    return StartupLog(
        weights_bytes=weights,
        activations_bytes=None if peak is None else max(0, peak - set_aside),
        non_torch_bytes=None if non_torch is None else max(0, non_torch),
        cuda_graphs_bytes=None if graphs is None else max(0, graphs),
        kv_bytes=_bytes(found, "kv"),
        total_bytes=_bytes(found, "total"),
        is_profiled=on_gpu and "given" not in found and "kv" in found,
    )


def _bytes(found: Mapping[str, float], name: str) -> int | None:
    return round(found[name] * _GIB) if name in found else None


def _amounts(log: str) -> dict[str, float]:
    """Return every amount in GiB; a group that is only there to be there counts as 0."""
    found: dict[str, float] = {}
    for line in log.split("\n", _MOST_LINES)[:_MOST_LINES]:
        for pattern in _patterns():
            match = pattern.search(line)
            for name, text in (match.groupdict() if match else {}).items():
                amount = _number(text)
                if amount is None:
                    continue
                least = name in _LEAST
                before = found.get(name, amount)
                found[name] = min(before, amount) if least else max(before, amount)
    return found


def _number(text: str) -> float | None:
    if text[0].isalpha():
        return 0.0
    try:
        amount = float(text)
    except ValueError:  # such as 1.2.3: no line of an engine
        return None
    return amount if abs(amount) <= _MOST_GIB else None


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    rows = package_data.load("startup_log.json")["lines"]
    return tuple(re.compile(row["pattern"]) for row in rows)
