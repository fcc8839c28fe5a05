"""`tidegate explain`."""

import json

import click

from tidegate.api import explain
from tidegate.cli import REFUSED

_WHERE = "`tidegate explain spec` lists the fields, docs/reference/reasons.md the reasons"


@click.command("explain", short_help="Explain a reason of a condition, or a field.")
@click.argument("subject")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def command(subject: str, output: str) -> None:
    """Explain what a REASON means and what to do, or what a FIELD does.

    Examples: tidegate explain KVCacheTooSmall; tidegate explain pools.decode.replicas
    """
    found = explain.explain(subject)
    if isinstance(found, explain.Unknown):
        near = ", ".join(found.suggestions)
        hint = f"did you mean {near}?" if near else _WHERE
        click.echo(f"tidegate: {subject} is neither a reason nor a field; {hint}", err=True)
        raise click.exceptions.Exit(REFUSED)
    if output == "json":
        click.echo(json.dumps(found.wire(), indent=2, ensure_ascii=False))
    else:
        click.echo(found.text())
