"""Pulling a lever: look, say what will happen in numbers, ask, write, and see that it holds."""

import asyncio
import dataclasses
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tidegate.cli import REFUSED
from tidegate.cli.cluster.access import Access, Document
from tidegate.cli.inputs import documents
from tidegate.cli.levers import lever_look, lever_write
from tidegate.cli.levers.confirming import Acting, waiting
from tidegate.cli.levers.lever_look import Seen
from tidegate.core.levers import forecast as forecasts
from tidegate.core.levers.forecast import Forecast
from tidegate.core.levers.lever import Lever, held


def lever_of(
    action: Any, seconds: float, reason: str, percent: float | None = None, to: str | None = None
) -> Lever:
    """Return a lever that lapses `seconds` from now."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return Lever(action, until, reason, percent, to)


def pull(where: Access, name: str, lever: Lever, seconds: float, acting: Acting) -> None:
    """Set a lever, for `seconds` from when it is written; exit with 1 where no gate applies it.

    Raises:
        Denied: It cannot be, or the user does not want it any more.
    """
    with waiting(f"asking the gates for {lever_look.WINDOW_SECONDS:g} s"):
        seen = asyncio.run(lever_look.look(where, name, lever.to))
    expected = forecasts.of_lever(lever, seen.load, seen.floor, seen.target)
    acting.tell([_heading(seen, lever), *expected.sentences, *_replaced(seen)])
    acting.confirm(f"{lever.action} for {_spelled(seconds)}?")
    lever = dataclasses.replace(lever, until=datetime.now(UTC) + timedelta(seconds=seconds))
    stored = asyncio.run(lever_write.write(where, seen, lever, acting.dry_run))
    holds = None
    if not acting.dry_run:
        with waiting("waiting for the gates"):
            holds = asyncio.run(lever_write.takes_hold(where, name, lever))
    _conclude(seen, stored, expected, acting, holds, _undo(where, seen))
    if holds is False:
        raise click.exceptions.Exit(REFUSED)


def let_go(where: Access, name: str, acting: Acting) -> None:
    """Remove the lever that holds; the loop decides again.

    Raises:
        Denied: It cannot be, or the user does not want it any more.
    """
    with waiting(f"asking the gates for {lever_look.WINDOW_SECONDS:g} s"):
        seen = asyncio.run(lever_look.look(where, name))
    expected = forecasts.of_letting_go(seen.load)
    if held(seen.resource) is None:
        acting.tell([f"{seen.namespace}/{name} has no lever that holds.", *_loops(seen)])
        _document(seen, seen.resource, expected, acting, None, None)
        return
    acting.tell([f"Let go of {seen.namespace}/{name}.", *expected.sentences, *_replaced(seen)])
    acting.confirm("Let go?")
    stored = asyncio.run(lever_write.write(where, seen, None, acting.dry_run))
    acting.tell([f"{_done(acting)}: the lever is gone."])
    _document(seen, stored, expected, acting, None, None)


def _heading(seen: Seen, lever: Lever) -> str:
    what = {
        "Shed": f"turn away {lever.percent or 0:g} % of the requests",
        "Shift": f"move {lever.percent or 0:g} % of the requests to {lever.to}",
        "Open": "let all in, whatever the signals say",
    }[lever.action]
    name = seen.resource["metadata"]["name"]
    return f"{seen.namespace}/{name}: {what}, until {_time(lever.until)} ({lever.reason})."


def _replaced(seen: Seen) -> list[str]:
    before = held(seen.resource)
    if before is None:
        return []
    share = f" {before['percent']:g} %" if before.get("percent") is not None else ""
    by = before.get("setBy") or "an unknown user"
    return [
        f"In its place until now: {before['action']}{share} until {before['until']}, "
        f"set by {by} ({before['reason']})."
    ]


def _loops(seen: Seen) -> list[str]:
    """Say what shares the loop itself has set, and how to keep it from that."""
    shares = seen.load.shed_percent, seen.load.shift_percent
    if not any(shares):
        return []
    return [
        f"The loop itself sheds {shares[0]:g} % and shifts {shares[1]:g} %; "
        "open --hold --for 30m --reason ... keeps it from that."
    ]


def _conclude(
    seen: Seen,
    stored: Document,
    expected: Forecast,
    acting: Acting,
    holds: bool | None,
    undo: str,
) -> None:
    override = held(stored) or {}
    by = override.get("setBy") or "unknown: no webhook filled it in"
    acting.tell([f"{_done(acting)}: by {by}, until {override.get('until')}."])
    if holds:
        acting.tell(["The gates apply it."])
    elif holds is False:
        acting.tell(
            [
                "No gate applies it yet: look whether the operator runs and the gates answer, "
                "with tidegate status."
            ]
        )
    elif not acting.dry_run:
        acting.tell(["Whether the gates apply it is unknown: you may not look at their pods."])
    if not acting.dry_run:
        acting.tell([f"Undo: {undo}"])
    _document(seen, stored, expected, acting, holds, undo)


def _document(
    seen: Seen,
    stored: Document,
    expected: Forecast,
    acting: Acting,
    holds: bool | None,
    undo: str | None,
) -> None:
    if acting.form == "table":
        return
    document = {
        "name": seen.resource["metadata"]["name"],
        "namespace": seen.namespace,
        "dryRun": acting.dry_run,
        "override": held(stored),
        "replaced": held(seen.resource),
        "expected": expected.document(),
        "gatesApplyIt": holds,
        "undo": undo,
    }
    documents.print_documents([document], acting.form)


def _undo(where: Access, seen: Seen) -> str:
    options = ["-n", seen.namespace, *where.kubectl_options()]
    return shlex.join(["kubectl", "tidegate", "open", seen.resource["metadata"]["name"], *options])


def _done(acting: Acting) -> str:
    return "Not written, as a dry run is; the API server would take it" if acting.dry_run else "Set"


def _time(moment: datetime) -> str:
    return moment.strftime("%H:%M:%SZ")


def _spelled(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"
