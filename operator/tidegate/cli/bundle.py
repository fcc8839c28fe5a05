"""`tidegate bundle`: everything that a bug report needs, without its secrets."""

import asyncio
import io
import os
import tarfile
import time
from datetime import UTC, datetime

import click

from tidegate.cli import bundle_gather
from tidegate.cli.cluster import access
from tidegate.cli.cluster.access import Access, access_options
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.cluster.gate_reach import GateReach
from tidegate.cli.levers.confirming import waiting
from tidegate.cli.levers.lever_options import name_argument
from tidegate.core.bundle.contents import Contents

_PRIVATE = 0o600


@click.command("bundle", short_help="Gather everything that a bug report needs.")
@name_argument
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(dir_okay=False),
    metavar="FILE.tgz",
    help="Where to write; tidegate-NAME-TIME.tgz here when absent. A file is never overwritten.",
)
@click.option(
    "--operator-namespace",
    default="tidegate-system",
    show_default=True,
    help="Where the operator runs.",
)
@access_options
def command(
    name: str,
    path: str | None,
    operator_namespace: str,
    namespace: str | None,
    context: str | None,
    kubeconfig: str | None,
) -> None:
    """Write an archive of a deployment: resource, plan, objects, pods, Events, logs, metrics.

    Secrets are never read; values, words and URLs that look like keys are redacted. What you may
    not read is left out and named in README.txt. Prompts and answers are in no log of ours; engines
    log them only if you told them to.

    Example: kubectl tidegate bundle qwen3-32b -f report.tgz
    """
    now = datetime.now(UTC)
    target = path or f"tidegate-{name}-{now:%Y%m%d-%H%M%S}.tgz"
    if os.path.lexists(target):
        raise Denied(f"{target} is there already; give another name with -f")
    where = Access(namespace, context, kubeconfig)
    with waiting("gathering"):
        contents = asyncio.run(_gather(where, name, operator_namespace))
    heading = f"Tidegate bundle of {name}, {now:%Y-%m-%dT%H:%M:%SZ}."
    contents.files["README.txt"] = contents.summary(heading)
    _write(target, contents, os.path.basename(target).removesuffix(".tgz"))
    missing = f", {len(contents.missing)} could not be had" if contents.missing else ""
    click.echo(f"{target}: {len(contents.files)} files{missing}; README.txt tells")


async def _gather(where: Access, name: str, operator: str) -> Contents:
    async with access.connected(where) as cluster, GateReach(cluster) as reach:
        return await bundle_gather.gather(cluster, reach, name, operator)


def _write(target: str, contents: Contents, folder: str) -> None:
    """Write the archive, for its owner alone."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for path, text in sorted(contents.files.items()):
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{folder}/{path}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), _PRIVATE
            archive.addfile(entry, io.BytesIO(data))
