"""`tidegate top`: what a deployment does, live."""

import asyncio
from typing import Any, Protocol

import click

from tidegate.cli import streams
from tidegate.cli.cluster import access, completing
from tidegate.cli.cluster.access import Access, Cluster, access_options
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.inputs import documents
from tidegate.cli.levers.lever_options import Duration, form_option
from tidegate.cli.screen import top_view
from tidegate.cli.screen.top_read import Fleet, Watched

ONCE_SECONDS = 3.0
"""Between the two reads of `--once`: rates need two."""


class Source(Protocol):
    """What is shown, read again each time."""

    async def read(self) -> dict[str, Any]:
        """Return the newest document."""


@click.command("top", short_help="Show what a deployment does, live.")
@click.argument("name", required=False, shell_complete=completing.deployments)
@click.option("--once", is_flag=True, help="Print one table and end; without a terminal, too.")
@click.option(
    "--interval",
    type=Duration(),
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="Between two reads.",
)
@access_options
@form_option
def command(
    name: str | None,
    once: bool,
    interval: float,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
    form: str,
) -> None:
    """Show phases side by side, the ledger of each pod, queue, refusals, shares and latency.

    Without NAME every deployment of the namespace, one a line. Rates and quantiles are of the last
    30 s. q or ctrl-c ends it.

    Examples: kubectl tidegate top qwen3-32b; kubectl tidegate top --once -o json
    """
    where = Access(namespace, context, kubeconfig)
    if once or form != "table" or not streams.is_live_terminal():
        document = asyncio.run(_once(where, name))
        if form == "table":
            top_view.print_plain(document)
        else:
            documents.print_documents([document], form)
        return
    asyncio.run(_live(where, name, interval))


async def _once(where: Access, name: str | None) -> dict[str, Any]:
    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        source = _source(cluster, reach, name)
        await source.read()
        await asyncio.sleep(ONCE_SECONDS)
        return await source.read()


async def _live(where: Access, name: str | None, interval: float) -> None:
    from tidegate.cli.screen import top_live

    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        source = _source(cluster, reach, name)
        first = await source.read()  # what is refused is told before the screen is taken
        await top_live.show(source.read, first, interval)


def _source(cluster: Cluster, reach: GateReach, name: str | None) -> Source:
    return Fleet(cluster, reach) if name is None else Watched(cluster, reach, name)
