"""The rows of a what-if table: one for each combination, pool and class of node."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.sizing import Sizing
from tidegate.core.what_if.axes import Combination
from tidegate.errors import Invalid, Problem, Refused


@dataclass(frozen=True)
class Held:
    """What one pod holds of `gpus` GPUs."""

    engine: EngineConfig
    sizing: Sizing
    gpus: int


@dataclass(frozen=True)
class Row:
    """One combination on one class of node: what it holds, or why not."""

    combination: Combination
    pool: str
    product: str
    held: Held | None
    refusal: Refused | None = None


def _of_all_engines(held: Held) -> int:
    """Each data parallel engine holds as many requests; `gpus` counts the GPUs of all of them."""
    return held.sizing.requests_at_max_model_len * held.engine.data_parallel


_Measure = Callable[[Held], float]
_MEASURES: dict[str, _Measure] = {
    "requests": lambda held: held.sizing.requests_at_max_model_len,
    "requestsAtP95": lambda held: held.sizing.requests_at_p95 or 0,
    "requestsPerGpu": lambda held: _of_all_engines(held) / held.gpus,
    "kvTokens": lambda held: held.sizing.pool.cache_size_tokens,
    "kvBytes": lambda held: held.sizing.budget.kv_cache.bytes,
    "maxModelLen": lambda held: held.engine.max_model_len,
    "gpus": lambda held: -held.gpus,
}
SORT_KEYS = tuple(_MEASURES)


def ordered(rows: Iterable[Row], key: str | None) -> list[Row]:
    """Return the rows with the best first by a measure, the refused last; ties keep their order.

    Of `gpus` the fewest is best, of all others the most. Without a key only the refused move.

    Raises:
        Invalid: There is no such measure.
    """
    if key is not None and key not in _MEASURES:
        raise Invalid([Problem("--sort", f"{key[:80]} is none of {', '.join(SORT_KEYS)}")])

    def rank(row: Row) -> tuple[bool, float]:
        value = 0.0 if row.held is None or key is None else -_MEASURES[key](row.held)
        return row.held is None, value

    return sorted(rows, key=rank)


def fields(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what is varied, in the order in which it was asked for."""
    return tuple(field for field, _ in rows[0].combination) if rows else ()
