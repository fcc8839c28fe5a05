"""What is said of a lever: before it is written, and once it is."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.cli.cluster.access import Access
from tidegate.cli.inputs import documents
from tidegate.cli.levers.confirming import Acting
from tidegate.cli.levers.lever_look import Seen
from tidegate.cli.levers.lever_write import Written
from tidegate.core.levers.forecast import Forecast
from tidegate.core.levers.holding import Holding
from tidegate.core.levers.lever import Lever, stored


@dataclass(frozen=True)
class Pulled:
    """A lever that was set or let go of; `undo` is the command that lets go of it."""

    seen: Seen
    expected: Forecast
    written: Written
    undo: str | None = None


def heading(seen: Seen, lever: Lever) -> str:
    """Say what is to be done."""
    what = {
        "Shed": f"turn away {lever.percent or 0:g} % of the requests",
        "Shift": f"move {lever.percent or 0:g} % of the requests to {lever.to}",
        "Open": "let all in, whatever the signals say",
    }[lever.action]
    name, until = seen.resource["metadata"]["name"], f"{lever.until:%H:%M:%SZ}"
    return f"{seen.namespace}/{name}: {what}, until {until} ({lever.reason})."


def replaced(seen: Seen) -> Iterator[str]:
    """Say which lever holds until then."""
    before = seen.before
    if before is None:
        return
    share = f" {before['percent']:g} %" if before.get("percent") is not None else ""
    by = before.get("setBy") or "an unknown user"
    yield (
        f"In its place until now: {before['action']}{share} until {before['until']}, "
        f"set by {by} ({before['reason']})."
    )


def without(seen: Seen) -> Iterator[str]:
    """Say that there is nothing to let go of, and what holds all the same."""
    lapsed = stored(seen.resource)
    ended = f"; the last one lapsed at {lapsed['until']}" if lapsed else ""
    yield f"{seen.namespace}/{seen.resource['metadata']['name']} has no lever that holds{ended}."
    if seen.present.total and not seen.present.by_lever:
        yield (
            f"The loop itself {seen.present.shares()}; "
            "open --hold --for 30m --reason ... keeps it from that."
        )


def written(done: Written, dry_run: bool) -> Iterator[str]:
    """Say that a lever is set, and what was warned of."""
    override = stored(done.resource) or {}
    by = override.get("setBy") or "unknown: no webhook filled it in"
    yield from _done(done, dry_run, f"by {by}, until {override.get('until')}")


def gone(done: Written, dry_run: bool) -> Iterator[str]:
    """Say that the lever is no longer there, and what was warned of."""
    yield from _done(done, dry_run, "the lever is gone")


def document(pulled: Pulled, acting: Acting, found: Holding | None) -> None:
    """Print it for programs, where that is asked for; `found` is None where nobody waited."""
    if acting.form == "table":
        return
    seen = pulled.seen
    told = {
        "name": seen.resource["metadata"]["name"],
        "namespace": seen.namespace,
        "dryRun": acting.dry_run,
        "override": stored(pulled.written.resource),
        "replaced": seen.before,
        "expected": pulled.expected.document(),
        "warnings": list(pulled.written.warnings),
        "gatesApplyIt": found.holds if found else None,
        "gates": found.document() if found else None,
        "message": found.told if found else None,
        "undo": pulled.undo,
    }
    documents.print_documents([told], acting.form)


def undo(where: Access, seen: Seen) -> str:
    """Return the command that lets go of it."""
    options = ["-n", seen.namespace, *where.kubectl_options()]
    return shlex.join(["kubectl", "tidegate", "open", seen.resource["metadata"]["name"], *options])


def spelled(seconds: float) -> str:
    """Spell a duration."""
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"


def _done(done: Written, dry_run: bool, what: str) -> Iterator[str]:
    yield from (f"Warning: {told}" for told in done.warnings)
    begins = "Not written, as a dry run is; the API server would take it" if dry_run else "Set"
    yield f"{begins}: {what}."
