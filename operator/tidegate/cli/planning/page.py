"""The page of `tidegate plan --html`: one file with bars, curves and reasons, and no script.

What users wrote is data: the template is filled with autoescape on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from tidegate import __version__, assets
from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.figures import Figure, How
from tidegate.api.reasons import Reason
from tidegate.api.wire import format_bytes
from tidegate.cli.planning import what_if_tables
from tidegate.cli.verdict import Verdict
from tidegate.core.budget.sizing import Budget
from tidegate.core.canary import needs_told
from tidegate.core.canary.needs import Needs
from tidegate.core.slice_plan import SlicePlan
from tidegate.core.what_if import chart, curves
from tidegate.core.what_if.chart import Panel
from tidegate.core.what_if.rows import Row
from tidegate.errors import Refused, Wait

_TEMPLATE = "plan.html.j2"
_LINES = (
    # (field of the budget, label, class of its colour)
    ("weights", "Weights", "weights"),
    ("draft", "Draft model", "draft"),
    ("activations", "Activations", "activations"),
    ("cuda_graphs", "CUDA graphs", "graphs"),
    ("runtime", "Runtime", "runtime"),
    ("kv_cache", "KV cache", "kv"),
    ("reserve", "Reserve", "reserve"),
)
_LABELLED_SHARE = 9.0  # percent of the bar below which a name does not fit into its part
_COMPARED_DTYPES = ("auto", "fp8")


@dataclass(frozen=True)
class Part:
    """One line of a GPU's memory; `share` is in percent of the card."""

    label: str
    kind: str
    size: str
    share: float
    how: str

    @property
    def is_labelled(self) -> bool:
        """Whether the bar has room for the name."""
        return self.share >= _LABELLED_SHARE


@dataclass(frozen=True)
class Slice:
    """One pool on one class of node as the page shows it."""

    heading: str
    pods: str
    facts: tuple[tuple[str, str], ...]
    total: str
    parts: tuple[Part, ...]
    because: tuple[str, ...]
    panels: tuple[Panel, ...]
    own_size: int


def render(verdicts: Sequence[Verdict], tables: Sequence[tuple[str, list[Row]]]) -> str:
    """Return the page as text."""
    environment = Environment(
        loader=FunctionLoader(assets.template),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        version=__version__,
        sections=[_section(one) for one in verdicts],
        tables=[_table(name, rows) for name, rows in tables if rows],
        chart={"width": chart.WIDTH, "height": chart.HEIGHT},
        tokens=chart.tokens,
    )


def _section(verdict: Verdict) -> dict[str, Any]:
    plan = verdict.plan
    return {
        "name": verdict.name,
        "title": verdict.title,
        "refusal": None if verdict.refusal is None else _refusal(verdict.refusal),
        "slices": [_slice(entry, verdict) for entry in plan.slices] if plan else [],
        "exclusions": [str(exclusion) for exclusion in plan.exclusions] if plan else [],
        "because": plan.because if plan else (),
        "rollout": None if verdict.rollout is None else _rollout(verdict.rollout),
    }


def _rollout(needs: Needs) -> dict[str, Any]:
    return {
        "title": needs_told.title(needs),
        "headings": [{"name": name, "is_number": number} for name, number in needs_told.COLUMNS],
        "rows": needs_told.rows(needs),
        "sentences": needs_told.sentences(needs),
    }


def _refusal(refusal: Refused | Wait) -> dict[str, str]:
    explanation = EXPLANATIONS[Reason(refusal.reason)]
    return {
        "reason": str(refusal.reason),
        "message": refusal.message,
        "action": explanation.action,
    }


def _slice(entry: SlicePlan, verdict: Verdict) -> Slice:
    gpu, sizing, engine = entry.node_class.gpu, entry.sizing, entry.engine
    facts = [
        ("requests at once", f"{sizing.requests_at_max_model_len:,}"),
        ("tokens each", f"{engine.max_model_len:,}"),
        ("KV tokens", f"{sizing.pool.cache_size_tokens:,}"),
        ("KV cache, each GPU", format_bytes(sizing.budget.kv_cache.bytes)),
    ]
    if sizing.requests_at_p95 is not None:
        facts.insert(2, ("of the declared workload", f"{sizing.requests_at_p95:,}"))
    if entry.prefills and entry.prefill_tokens_per_second:
        speed = f"{entry.prefill_tokens_per_second:,.0f}"
        facts.append(("prefill tokens per second, estimated", speed))
    return Slice(
        heading=f"{entry.pool} on {entry.node_class.product} ({gpu.name})",
        pods=f"{_count(entry.replicas, 'pod')} of {_count(entry.gpus, 'GPU')}, "
        f"KV type {engine.kv_cache_dtype}",
        facts=tuple(facts),
        total=format_bytes(sizing.budget.total.bytes),
        parts=_parts(sizing.budget),
        because=entry.because,
        panels=_panels(entry, verdict),
        own_size=engine.tensor_parallel,
    )


def _panels(entry: SlicePlan, verdict: Verdict) -> tuple[Panel, ...]:
    if verdict.basis is None:
        return ()
    engine, node_class = entry.engine, entry.node_class
    dtypes = (*_COMPARED_DTYPES, engine.kv_cache_dtype)  # a type has one colour on every page
    drawn = curves.of(verdict.basis, engine, node_class.gpu, dtypes, node_class.gpus_per_node)
    return chart.panels(drawn)


def _parts(budget: Budget) -> tuple[Part, ...]:
    total_bytes = budget.total.bytes
    return tuple(
        Part(
            label, kind, format_bytes(figure.bytes), 100 * figure.bytes / total_bytes, _how(figure)
        )
        for field, label, kind in _LINES
        if (figure := getattr(budget, field)).bytes > 0
    )


def _how(figure: Figure) -> str:
    if figure.how is How.ESTIMATED:
        return f"estimated, {format_bytes(figure.low)} to {format_bytes(figure.high)}"
    return str(figure.how)


def _table(name: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "name": name,
        "headings": what_if_tables.headings(rows),
        "rows": [
            {"cells": what_if_tables.cells(row, rows), "fits": row.held is not None} for row in rows
        ],
        "refusals": [what_if_tables.told(row) for row in rows if row.held is None],
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
