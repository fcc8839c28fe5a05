"""`tidegate runbook`: what to do about an alert."""

import difflib

import click

from tidegate import assets
from tidegate.cli import REFUSED

_NEAREST = 3
_LEAST_LIKE = 0.65
"""How like an alert a name must be: a part of it or a slip of the pen, not another word."""


def _offered(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in assets.runbooks() if name.lower().startswith(incomplete.lower())]


@click.command("runbook", short_help="Print what to do about an alert.")
@click.argument("alert", required=False, shell_complete=_offered)
def command(alert: str | None) -> None:
    """Print the runbook of ALERT; without one, the alerts that have a runbook.

    Example: kubectl tidegate runbook KVUsageHigh
    """
    found = assets.runbooks()
    if alert is None:
        click.echo("\n".join(found))
        return
    by_small = {name.lower(): name for name in found}
    name = by_small.get(alert.lower()) or by_small.get(f"tidegate{alert}".lower())
    if name is None:
        near = difflib.get_close_matches(alert.lower(), by_small, n=_NEAREST, cutoff=_LEAST_LIKE)
        told = ", ".join(by_small[each] for each in near)
        hint = f"did you mean {told}?" if near else "tidegate runbook lists those there are"
        click.echo(f"tidegate: there is no runbook for {alert[:100]}; {hint}", err=True)
        raise click.exceptions.Exit(REFUSED)
    click.echo(assets.runbook(name), nl=False)
