"""`tidegate shift`: have another deployment serve a share of the requests, for a while."""

import click

from tidegate.cli.cluster import completing
from tidegate.cli.cluster.access import Access, access_options
from tidegate.cli.levers import lever
from tidegate.cli.levers.confirming import Acting
from tidegate.cli.levers.lever_options import (
    Named,
    Share,
    acting_options,
    lever_options,
    name_argument,
)
from tidegate.core.levers.amount import Amount


@click.command("shift", short_help="Have another deployment serve a share of the requests.")
@name_argument
@click.argument("percent", type=Share())
@click.option(
    "--to",
    type=Named(),
    required=True,
    metavar="NAME",
    shell_complete=completing.deployments,
    help="The other deployment, of the same namespace.",
)
@lever_options
@access_options
@acting_options
def command(
    name: str,
    percent: Amount,
    to: str,
    seconds: float,
    reason: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    dry_run: bool,
    yes: bool,
    form: str,
) -> None:
    """Have another deployment serve PERCENT of the requests, whatever the loop decides.

    With a plus, as in +20, PERCENT comes on top of what is turned away or shifted now, as a lever
    takes the place of both.

    Says first how many that are and what room the other has, and asks. It lapses by itself.

    Example: kubectl tidegate shift qwen3-32b 20 --to qwen3-32b-west --for 30m --reason INC-1
    """
    pulled = lever.lever_of("Shift", seconds, reason, to)
    where = Access(namespace, context, kubeconfig)
    lever.pull(where, name, pulled, seconds, Acting(dry_run, yes, form), percent)
