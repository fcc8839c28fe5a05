"""`tidegate open`: let go of every lever, or keep the loop from pulling one."""

import click

from tidegate.cli.cluster.access import Access, access_options
from tidegate.cli.levers import lever
from tidegate.cli.levers.confirming import Acting
from tidegate.cli.levers.lever_options import Duration, Reason, acting_options, name_argument


@click.command("open", short_help="Let go of every lever.")
@name_argument
@click.option("--hold", is_flag=True, help="Keep the loop from shedding and shifting, for a while.")
@click.option(
    "--for",
    "seconds",
    type=Duration(),
    metavar="DURATION",
    help="With --hold: when it lapses, from now; 30m, 2h, at most 24h.",
)
@click.option(
    "--reason",
    type=Reason(),
    metavar="TEXT",
    help="With --hold: why, for those who come later; such as INC-1.",
)
@access_options
@acting_options
def command(
    name: str,
    hold: bool,
    seconds: float | None,
    reason: str | None,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    dry_run: bool,
    yes: bool,
    form: str,
) -> None:
    """Let go of the lever that holds, so that the loop decides again.

    With --hold it lets all requests in until it lapses, whatever the signals say; the gates' own
    limits still hold.

    Examples: kubectl tidegate open qwen3-32b;
    kubectl tidegate open qwen3-32b --hold --for 30m --reason "the metrics lie"
    """
    where, acting = Access(namespace, context, kubeconfig), Acting(dry_run, yes, form)
    if not hold:
        if seconds is not None or reason is not None:
            raise click.UsageError("--for and --reason go with --hold; give it too, or leave both")
        lever.let_go(where, name, acting)
        return
    if seconds is None or reason is None:
        raise click.UsageError("--hold needs --for and --reason")
    lever.pull(where, name, lever.lever_of("Open", seconds, reason), seconds, acting)
