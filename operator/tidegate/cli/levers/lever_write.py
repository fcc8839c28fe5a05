"""How a lever is written: the user's own patch of `spec.overload.override`."""

from dataclasses import dataclass

from tidegate.cli.cluster import access
from tidegate.cli.cluster.access import Access, Cluster, Document
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.levers.lever_look import Seen
from tidegate.core.levers import lever as levers
from tidegate.core.levers.lever import Lever
from tidegate.errors import Invalid, Problem

_TRIES = 5
"""The operator writes status at any time, which makes a new version of the resource."""


@dataclass(frozen=True)
class Written:
    """The resource as it is stored, and what the API server and webhooks warn of."""

    resource: Document
    warnings: tuple[str, ...] = ()


async def write(where: Access, seen: Seen, lever: Lever | None, dry_run: bool) -> Written:
    """Set a lever or let go of all.

    Raises:
        Denied: The API server or the webhook refuses, or somebody changed the spec meanwhile.
        Invalid: There was no answer, and it is not known whether it was done.
    """
    async with access.connected(where) as cluster:
        version = str(seen.resource["metadata"]["resourceVersion"])
        for _ in range(_TRIES):
            try:
                status, answer = await cluster.call(
                    "PATCH",
                    seen.path,
                    query=_query(dry_run),
                    body=levers.patch(lever, version),
                    content_type="application/merge-patch+json",
                )
            except Invalid as error:
                return await _found(cluster, seen, lever, error)
            if status < 300:
                return Written(answer, tuple(cluster.warnings))
            if status != 409:
                refused = access.denied(status, answer)
                if status < 500:
                    raise refused
                return await _found(cluster, seen, lever, refused)
            version = await _version_of_same_spec(cluster, seen)
        raise Denied("the resource changes too fast; try again")


async def _found(
    cluster: Cluster, seen: Seen, lever: Lever | None, error: Denied | Invalid
) -> Written:
    """Look whether a patch that failed or had no answer was done all the same."""
    name = seen.resource["metadata"]["name"]
    try:
        resource = await cluster.deployment(name)
    except (Denied, Invalid) as again:
        told = (
            f"whether this is written is unknown ({access.line(error)}), nor can it be looked up "
            f"({access.line(again)}): look at spec.overload.override"
        )
        raise Invalid([Problem(name, told)]) from error
    if levers.is_written(lever, resource):
        told = f"the API server's answer was lost ({access.line(error)}), but this is written"
        return Written(resource, (*cluster.warnings, told))
    if isinstance(error, Denied):
        raise error
    raise Denied(f"nothing is written, for there was no answer ({access.line(error)}); try again")


def _query(dry_run: bool) -> dict[str, str]:
    query = {"fieldManager": levers.FIELD_MANAGER, "fieldValidation": "Strict"}
    return query | ({"dryRun": "All"} if dry_run else {})


async def _version_of_same_spec(cluster: Cluster, seen: Seen) -> str:
    """Return the version that has only another status than what was shown to the user."""
    now = (await cluster.deployment(seen.resource["metadata"]["name"]))["metadata"]
    before = seen.resource["metadata"]
    if (now["uid"], now.get("generation")) != (before["uid"], before.get("generation")):
        raise Denied(
            f"somebody changed {now['name']} meanwhile, so nothing was written; look at it "
            "(tidegate status) and try again"
        )
    return str(now["resourceVersion"])
