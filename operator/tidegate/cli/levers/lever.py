"""Pulling a lever: look, say what will happen in numbers, ask, write, and see that it holds."""

import asyncio
import dataclasses
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tidegate.cli import REFUSED
from tidegate.cli.cluster.access import Access
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.levers import lever_look, lever_told, lever_wait, lever_write
from tidegate.cli.levers.confirming import Acting, waiting
from tidegate.cli.levers.lever_look import Seen
from tidegate.cli.levers.lever_told import Pulled
from tidegate.cli.levers.lever_write import Written
from tidegate.core.levers import forecast as forecasts
from tidegate.core.levers.amount import Amount
from tidegate.core.levers.holding import Holding
from tidegate.core.levers.lever import Lever, stored


def lever_of(action: Any, seconds: float, reason: str, to: str | None = None) -> Lever:
    """Return a lever that lapses `seconds` from now, without its share."""
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return Lever(action, until, reason, None, to)


def pull(
    where: Access,
    name: str,
    lever: Lever,
    seconds: float,
    acting: Acting,
    amount: Amount | None = None,
) -> None:
    """Set a lever, for `seconds` from when it is written; exit with 1 where no gate applies it.

    Args:
        where: The cluster.
        name: The deployment.
        lever: What to do.
        seconds: For how long.
        acting: Whether to ask, and how to tell.
        amount: Its share; None where it has none.

    Raises:
        Denied: It cannot be, or the user does not want it any more.
    """
    with waiting(f"asking the gates for {lever_look.WINDOW_SECONDS:g} s"):
        seen = asyncio.run(lever_look.look(where, name, lever.to))
    if amount is not None:
        lever = dataclasses.replace(lever, percent=_percent(amount, seen))
    expected = forecasts.of_lever(lever, seen.load, seen.floor, seen.present, seen.target)
    acting.tell([lever_told.heading(seen, lever), *expected.sentences, *lever_told.replaced(seen)])
    acting.confirm(f"{lever.action} for {lever_told.spelled(seconds)}?")
    lever = dataclasses.replace(lever, until=datetime.now(UTC) + timedelta(seconds=seconds))
    written = asyncio.run(lever_write.write(where, seen, lever, acting.dry_run))
    pulled = Pulled(seen, expected, written, lever_told.undo(where, seen))
    acting.tell(lever_told.written(written, acting.dry_run))
    if not acting.dry_run:
        acting.tell([f"Undo: {pulled.undo}"])
    override = stored(written.resource) or lever.override()
    _conclude(pulled, acting, lever_wait.takes_hold(where, name, override))


def _percent(amount: Amount, seen: Seen) -> float:
    percent = amount.percent(seen.present.total)
    if percent is None:
        raise Denied(
            f"how much is turned away or shifted now is not known, so neither is +{amount.points}; "
            "give a whole percent"
        )
    return percent


def let_go(where: Access, name: str, acting: Acting) -> None:
    """Remove the lever that holds, so that the loop decides; exit with 1 where it does not.

    Raises:
        Denied: It cannot be, or the user does not want it any more.
    """
    with waiting(f"asking the gates for {lever_look.WINDOW_SECONDS:g} s"):
        seen = asyncio.run(lever_look.look(where, name))
    expected = forecasts.of_letting_go(seen.load, seen.present)
    if seen.before is None:
        acting.tell(lever_told.without(seen))
        written = Written(seen.resource)
    else:
        heading = f"Let go of {seen.namespace}/{name}."
        acting.tell([heading, *expected.sentences, *lever_told.replaced(seen)])
        acting.confirm("Let go?")
        written = asyncio.run(lever_write.write(where, seen, None, acting.dry_run))
        acting.tell(lever_told.gone(written, acting.dry_run))
    _conclude(Pulled(seen, expected, written), acting, lever_wait.lets_go(where, name))


def _conclude(pulled: Pulled, acting: Acting, waits: Coroutine[Any, Any, Holding]) -> None:
    """Wait for the gates, and tell what came of it."""
    if acting.dry_run:
        waits.close()
        lever_told.document(pulled, acting, None)
        return
    with waiting("waiting for the operator and the gates"):
        found = asyncio.run(waits)
    acting.tell([found.told])
    lever_told.document(pulled, acting, found)
    if found.holds is False:
        raise click.exceptions.Exit(REFUSED)
