"""What the shell offers for an argument: names that are in the cluster, if it answers at once."""

import asyncio
from collections.abc import Awaitable, Callable

import click

from tidegate.cli.cluster import access
from tidegate.cli.cluster.access import Access
from tidegate.cli.cluster.denied import Denied
from tidegate.core import names
from tidegate.errors import Invalid

_SECONDS = 5.0


def deployments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the LLMDeployments of the namespace that begin so."""
    return _asked(_deployments, ctx, incomplete)


def pods(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the engines' pods of the deployment that was named before."""
    return _asked(_pods, ctx, incomplete)


async def _deployments(ctx: click.Context) -> list[str]:
    async with access.connected(_access(ctx)) as cluster:
        return [str(entry["metadata"]["name"]) for entry in await cluster.deployments()]


async def _pods(ctx: click.Context) -> list[str]:
    name = str(ctx.params.get("name") or "")
    async with access.connected(_access(ctx)) as cluster:
        found = await cluster.pods({names.LABEL_DEPLOYMENT: name})
        return [
            str(pod["metadata"]["name"])
            for pod in found
            if names.LABEL_POOL in (pod["metadata"].get("labels") or {})
        ]


def _access(ctx: click.Context) -> Access:
    given = ctx.params
    return Access(given.get("namespace"), given.get("context"), given.get("kubeconfig"))


def _asked(
    ask: Callable[[click.Context], Awaitable[list[str]]], ctx: click.Context, incomplete: str
) -> list[str]:
    async def in_time() -> list[str]:
        async with asyncio.timeout(_SECONDS):
            return await ask(ctx)

    try:
        return [name for name in asyncio.run(in_time()) if name.startswith(incomplete)]
    except (Denied, Invalid, TimeoutError, OSError):
        return []  # a shell that completes has no place for errors
