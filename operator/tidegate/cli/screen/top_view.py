"""The whole screen of `tidegate top`: it fits the terminal, whatever its size is at the moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from tidegate.cli.cluster import untold
from tidegate.cli.planning import tables
from tidegate.cli.screen import top_panels, top_rest

_WIDE = 90
"""Columns from which on panels stand side by side."""
_LEAST_ROWS = 2
_BELOW = 12
"""Lines that everything but the pods needs."""
_BELOW_NARROW = 8
"""The same where figures stand in lines instead of panels."""

FLEET_COLUMNS = (
    ("NAME", False),
    ("READY", False),
    ("STATE", False),
    ("REQ/S", True),
    ("REFUSED/S", True),
    ("KV USED", True),
    ("QUEUE", True),
    ("SHED", True),
    ("SHIFT", True),
    ("TTFT P95", True),
    ("TPOT P95", True),
)
POD_COLUMNS = (
    ("POD", False),
    ("POOL", False),
    ("RESERVED", True),
    ("CAPACITY", True),
    ("REQUESTS", True),
    ("BACKLOG", True),
    ("STATE", False),
)


@dataclass(frozen=True)
class View:
    """One screen; `trouble` is why it is not newer."""

    document: Mapping[str, Any]
    at: datetime
    trouble: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width, height = options.max_width, options.height or console.height
        if "items" in self.document:
            parts = [self._head(self.document["namespace"]), _fleet(self.document)]
            left_out = _rest(self.document)
            yield Group(*parts, *([Text(left_out, style="yellow")] if left_out else []))
            return
        entry = self.document
        gates, rest = entry["gates"], top_rest.lines(entry)
        head = (
            f"{entry['namespace']}/{entry['name']}  ready: {entry['ready']} {entry['reason']}  "
            f"{gates['answering']} of {gates['total']} gates answer"
        )
        yield Group(
            self._head(head),
            top_panels.shares(entry),
            *rest,
            _phases(entry, width, height - len(rest)),
            _below(entry, width),
        )

    def _head(self, told: str) -> Text:
        text = Text.assemble((told, "bold"), (f"  {self.at:%H:%M:%SZ}  q quits", "dim"))
        if self.trouble:
            text.append(f"\nnot newer: {self.trouble}", style="red")
        return text


def now(document: Mapping[str, Any], trouble: str = "", at: datetime | None = None) -> View:
    """Return the screen of a document that was read now, or at another time."""
    return View(document, at or datetime.now(UTC), trouble)


def print_plain(document: Mapping[str, Any]) -> None:
    """Print tables and lines and end: for pipes, and for terminals that cannot do more."""
    if "items" in document:
        tables.print_table("", FLEET_COLUMNS, [_row(entry) for entry in document["items"]])
        tables.print_sentences([_rest(document)] if _rest(document) else [])
        return
    tables.print_table("", FLEET_COLUMNS, [_row(document)])
    rows = [_pod(p, pod) for p, pod in _pods(document)]
    rows += [top_rest.row(pod, len(POD_COLUMNS)) for pod in document["podsNoGateTellsOf"]]
    tables.print_table("", POD_COLUMNS, rows)
    tables.print_sentences(untold.why(document))
    tables.print_lines(top_panels.shares(document), top_panels.lines(document))


def _phases(entry: Mapping[str, Any], width: int, height: int) -> RenderableType:
    pools: Sequence[Mapping[str, Any]] = entry["pools"]
    if not pools:
        return Text("no gate tells of a pod", style="red")
    beside = len(pools) if width >= _WIDE else 1
    stacks = -(-len(pools) // beside)
    below = _BELOW if width >= _WIDE else _BELOW_NARROW
    rows = max(_LEAST_ROWS, (height - below - 4 * stacks) // stacks)
    return _beside([top_panels.pool(pool, width // beside, rows) for pool in pools], beside)


def _below(entry: Mapping[str, Any], width: int) -> RenderableType:
    if width < _WIDE:
        return top_panels.lines(entry)
    panels = [
        top_panels.requests(entry),
        top_panels.latency(entry),
        top_panels.queue(entry),
        top_panels.refusals(entry, 6),
    ]
    return _beside(panels, len(panels))


def _beside(panels: Sequence[RenderableType], count: int) -> RenderableType:
    grid = Table.grid(expand=True)
    for _ in range(count):
        grid.add_column(ratio=1)
    for index in range(0, len(panels), count):
        grid.add_row(*panels[index : index + count])
    return grid


def _fleet(document: Mapping[str, Any]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, is_number in FLEET_COLUMNS:
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for entry in document["items"]:
        table.add_row(*_row(entry))
    if not document["items"]:
        return Text("there is no LLMDeployment", style="dim")
    return table


def _rest(document: Mapping[str, Any]) -> str:
    """Say how many deployments are left out; empty where none is."""
    count = document["notShown"]
    return f"{count} more not shown; top NAME shows one of them" if count else ""


def _row(entry: Mapping[str, Any]) -> tuple[str, ...]:
    rates = entry["perSecond"]
    refused = None if rates["asked"] is None else sum(rates["refused"].values())
    return (
        entry["name"],
        entry["ready"],
        entry["overload"]["state"] or "-",
        top_panels.number(rates["asked"]),
        top_panels.number(refused),
        top_panels.number(entry["kvUsed"], "{:.0%}"),
        str(sum(entry["queuedByClass"].values())),
        f"{entry['shedPercent']:g} %",
        f"{entry['shiftPercent']:g} %",
        top_panels.seconds(entry["ttftSeconds"]["p95"]),
        top_panels.seconds(entry["timePerOutputTokenSeconds"]["p95"]),
    )


def _pods(document: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(pool["name"], pod) for pool in document["pools"] for pod in pool["pods"]]


def _pod(pool: str, pod: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        pod["name"],
        pool,
        f"{pod['reservedTokens']:,}",
        f"{pod['capacityTokens']:,}",
        str(pod["requests"]),
        f"{pod['prefillBacklogTokens']:,}",
        ", ".join(pod["states"]) or "serves",
    )
