"""`tidegate shed`: turn a share of the requests away, for a while."""

import click

from tidegate.cli.cluster.access import Access, access_options
from tidegate.cli.levers import lever
from tidegate.cli.levers.confirming import Acting
from tidegate.cli.levers.lever_options import Share, acting_options, lever_options, name_argument
from tidegate.core.levers.amount import Amount


@click.command("shed", short_help="Turn a share of the requests away, for a while.")
@name_argument
@click.argument("percent", type=Share())
@lever_options
@access_options
@acting_options
def command(
    name: str,
    percent: Amount,
    seconds: float,
    reason: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    dry_run: bool,
    yes: bool,
    form: str,
) -> None:
    """Turn PERCENT of the requests away, the lowest class first, whatever the loop decides.

    With a plus, as in +20, PERCENT comes on top of what is turned away or shifted now, as a lever
    takes the place of both. Streams that run go on.

    Says first what it will do in numbers, and asks. It lapses by itself.

    Example: kubectl tidegate shed qwen3-32b 30 --for 30m --reason INC-1
    """
    pulled = lever.lever_of("Shed", seconds, reason)
    where = Access(namespace, context, kubeconfig)
    lever.pull(where, name, pulled, seconds, Acting(dry_run, yes, form), percent)
