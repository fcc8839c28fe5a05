"""The panels of `tidegate top`, each from a part of the document. What is not known is a dash."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidegate.cli import streams

_FULL, _NEARLY = 0.95, 0.80
"""From these shares on a bar is red, or yellow."""
_UNKNOWN = "-"


def number(value: float | None, spell: str = "{:.1f}") -> str:
    """Spell a number; a dash where it is not known."""
    return _UNKNOWN if value is None else spell.format(value)


def seconds(value: float | None) -> str:
    """Spell a time."""
    if value is None:
        return _UNKNOWN
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def bar(share: float | None, width: int) -> Text:
    """Return a bar that is `share` full, in the colour of how near the end is."""
    if share is None:
        return Text(_UNKNOWN.ljust(width), style="dim")
    marks = "█░" if streams.is_unicode() else "#."
    cells = min(width, round(max(share, 0.0) * width))
    style = "red" if share >= _FULL else "yellow" if share >= _NEARLY else "green"
    return Text.assemble((marks[0] * cells, style), (marks[1] * (width - cells), "dim"))


def pool(entry: Mapping[str, Any], width: int, rows: int) -> Panel:
    """Return a phase: the ledger of each pod, the fullest first, at most `rows` of them."""
    pods = sorted(entry["pods"], key=_used, reverse=True)
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for heading in ("POD", "KV"):
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for heading in ("USED", "REQ", "BACKLOG"):
        table.add_column(heading, justify="right", no_wrap=True)
    room = max(6, width // 5)
    shared = _beginning([str(pod["name"]) for pod in pods])
    for pod in pods[:rows]:
        table.add_row(
            Text(str(pod["name"])[shared:], style="dim" if pod["states"] else ""),
            bar(_used(pod) if pod["capacityTokens"] else None, room),
            f"{_used(pod):.0%}" if pod["capacityTokens"] else _UNKNOWN,
            str(pod["requests"]),
            _backlog(pod),
        )
    if len(pods) > rows:
        table.add_row(Text(f"and {len(pods) - rows} more", style="dim"))
    reserved = sum(pod["reservedTokens"] for pod in pods)
    capacity = sum(pod["capacityTokens"] for pod in pods)
    title = f"{entry['name']}  {reserved:,} of {capacity:,} KV tokens"
    return Panel(table, title=Text(title, style="bold"), title_align="left")


def requests(entry: Mapping[str, Any]) -> Panel:
    """Return what comes and what becomes of it."""
    rates = entry["perSecond"]
    rows = [
        ("asked", number(rates["asked"])),
        ("finished", number(rates["finished"])),
        ("refused", number(_sum(rates["refused"], rates["asked"]))),
        ("shifted", number(rates["shifted"])),
        ("failed", number(_sum(rates["failed"], rates["asked"]))),
        ("output tokens", number(rates["outputTokens"], "{:,.0f}")),
    ]
    return _panel("per second", rows)


def latency(entry: Mapping[str, Any]) -> Panel:
    """Return what users feel."""
    ttft, tpot = entry["ttftSeconds"], entry["timePerOutputTokenSeconds"]
    rows = [
        ("TTFT p50", seconds(ttft["p50"])),
        ("TTFT p95", seconds(ttft["p95"])),
        ("TPOT p50", seconds(tpot["p50"])),
        ("TPOT p95", seconds(tpot["p95"])),
    ]
    return _panel("latency", rows)


def queue(entry: Mapping[str, Any]) -> Panel:
    """Return who waits, the class that is served first on top."""
    waiting = sorted(entry["queuedByClass"].items(), reverse=True)
    return _panel(
        f"queue {sum(count for _, count in waiting)}",
        [(f"class {number}", str(count)) for number, count in waiting] or [("nobody waits", "")],
    )


def refusals(entry: Mapping[str, Any], rows: int) -> Panel:
    """Return why requests are turned away, the most frequent reason first."""
    found = sorted(entry["perSecond"]["refused"].items(), key=lambda item: -item[1])
    shown = [(reason or "no reason", f"{rate:.1f}") for reason, rate in found[:rows]]
    return _panel("refused by reason", shown or [("none", "")])


def lines(entry: Mapping[str, Any]) -> Text:
    """Return what the panels below the pods tell, in lines for a narrow window."""
    rates = entry["perSecond"]
    ttft, tpot = entry["ttftSeconds"], entry["timePerOutputTokenSeconds"]
    refused = ", ".join(
        f"{reason or 'no reason'} {rate:.1f}" for reason, rate in sorted(rates["refused"].items())
    )
    waiting = ", ".join(f"class {key}: {count}" for key, count in entry["queuedByClass"].items())
    asked, failed = rates["asked"], _sum(rates["failed"], rates["asked"])
    told = {
        "per second": f"asked {number(asked)}, finished {number(rates['finished'])}, "
        f"shifted {number(rates['shifted'])}, failed {number(failed)}",
        "refused": refused or number(_sum(rates["refused"], asked)),
        "TTFT p50, p95": f"{seconds(ttft['p50'])}, {seconds(ttft['p95'])}",
        "TPOT p50, p95": f"{seconds(tpot['p50'])}, {seconds(tpot['p95'])}",
        "queue": waiting or "nobody waits",
    }
    return Text("\n").join(
        Text.assemble((f"{name}  ", "dim"), value) for name, value in told.items()
    )


def shares(entry: Mapping[str, Any]) -> Text:
    """Return what the loop or a lever does now, in one line."""
    overload = entry["overload"]
    text = Text.assemble(
        (f"{overload['state'] or 'state unknown'}  ", "bold"),
        f"shed {entry['shedPercent']:g} %  shift {entry['shiftPercent']:g} %",
    )
    override = overload["override"]
    if override:
        share = f" {override['percent']:g} %" if override.get("percent") is not None else ""
        by = override.get("setBy") or "unknown"
        text.append(
            f"  lever: {override['action']}{share} until {override['until']} by {by} "
            f"({override['reason']})",
            style="yellow",
        )
        if override.get("refused"):
            text.append(f", refused: {override['refused']}", style="red")
    elif overload["message"]:
        text.append(f"  {overload['message']}", style="dim")
    return text


def _panel(title: str, rows: Sequence[tuple[str, str]]) -> Panel:
    table = Table(box=None, pad_edge=False, show_header=False, expand=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(value))
    return Panel(table, title=Text(title, style="bold"), title_align="left")


def _used(pod: Mapping[str, Any]) -> float:
    capacity = pod["capacityTokens"]
    return float(pod["reservedTokens"]) / capacity if capacity else 0.0


def _backlog(pod: Mapping[str, Any]) -> str:
    speed, tokens = pod["prefillTokensPerSecond"], pod["prefillBacklogTokens"]
    return f"{tokens / speed:.1f} s" if speed else f"{tokens:,} tok"


def _sum(rates: Mapping[str, float], asked: float | None) -> float | None:
    return None if asked is None else sum(rates.values())


def _beginning(names: Sequence[str]) -> int:
    """Return how many characters the names of the pods have in common, up to a dash."""
    if len(names) < 2:
        return 0
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    return first.rfind("-", 0, same) + 1
