"""The table of what-ifs, for a terminal and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.api.wire import format_bytes
from tidegate.cli import verdict
from tidegate.core.what_if import rows as what_if
from tidegate.core.what_if.rows import Held, Row


def show(name: str, rows: Sequence[Row]) -> None:
    """Print the rows with aligned columns; what was refused stands last, with its reason."""
    from tidegate.cli.planning import tables

    columns = [(heading.name, heading.is_number) for heading in headings(rows)]
    tables.print_table(name, columns, [cells(row, rows) for row in rows])
    tables.print_sentences([told(row) for row in rows if row.held is None])


@dataclass(frozen=True)
class Heading:
    """A column: its name, and whether it holds numbers."""

    name: str
    is_number: bool = True


def headings(rows: Sequence[Row]) -> list[Heading]:
    """Return the columns: what is varied, where it runs, what it holds."""
    named = [Heading(field, is_number=False) for field in what_if.fields(rows)]
    return [
        *named,
        *([Heading("pool", is_number=False)] if _has_pools(rows) else []),
        *([Heading("GPU", is_number=False)] if _has_products(rows) else []),
        Heading("GPUs"),
        Heading("KV each GPU"),
        Heading("KV tokens"),
        Heading("tokens each"),
        Heading("requests"),
        *([Heading("at p95")] if _has_p95(rows) else []),
        Heading("verdict", is_number=False),
    ]


def cells(row: Row, rows: Sequence[Row]) -> list[str]:
    """Return a row's cells, as many as there are headings."""
    start = [spelled(value) for _, value in row.combination]
    start += [row.pool] if _has_pools(rows) else []
    start += [row.product] if _has_products(rows) else []
    numbers = 5 + _has_p95(rows)
    if row.held is None:
        reason = str(row.refusal.reason) if row.refusal else ""
        return [*start, *[""] * numbers, reason]
    sizing, engine = row.held.sizing, row.held.engine
    return [
        *start,
        str(row.held.gpus),
        format_bytes(sizing.budget.kv_cache.bytes),
        f"{sizing.pool.cache_size_tokens:,}",
        f"{engine.max_model_len:,}",
        f"{sizing.requests_at_max_model_len:,}",
        *([_count(sizing.requests_at_p95)] if _has_p95(rows) else []),
        "fits",
    ]


def told(row: Row) -> str:
    """Say which combination was refused, and why."""
    values = ", ".join(f"{field} {spelled(value)}" for field, value in row.combination)
    where = f" on {row.product}" if row.product else ""
    return f"{values}{where}: {row.refusal.message if row.refusal else ''}"


def spelled(value: object) -> str:
    """Return a value as it is written after --vary."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def wire(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the table as documented in docs/reference/cli.md."""
    return {
        "name": name,
        "vary": list(what_if.fields(rows)),
        "rows": [_row(row) for row in rows],
    }


def _row(row: Row) -> dict[str, Any]:
    start = {
        "values": dict(row.combination),
        "pool": row.pool or None,
        "gpuProduct": row.product or None,
        "fits": row.held is not None,
        "refused": verdict.refused(row.refusal),
    }
    return start if row.held is None else start | _held(row.held)


def _held(held: Held) -> dict[str, Any]:
    pool = held.sizing.pool
    return {
        "gpus": held.gpus,
        "maxModelLen": held.engine.max_model_len,
        "kvBytes": held.sizing.budget.kv_cache.bytes,
        "kvBytesPerToken": pool.bytes_per_token,
        "kvBlockSize": pool.block_size,
        "kvBlocks": pool.num_blocks,
        "kvTokens": pool.cache_size_tokens,
        "concurrentRequests": {
            "atMaxModelLen": held.sizing.requests_at_max_model_len,
            "atP95": held.sizing.requests_at_p95,
        },
    }


def _has_pools(rows: Sequence[Row]) -> bool:
    return len({row.pool for row in rows if row.pool}) > 1


def _has_products(rows: Sequence[Row]) -> bool:
    return len({row.product for row in rows if row.product}) > 1


def _has_p95(rows: Sequence[Row]) -> bool:
    return any(row.held and row.held.sizing.requests_at_p95 is not None for row in rows)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
