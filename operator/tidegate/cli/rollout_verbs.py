"""`tidegate pause, resume, promote, abort, retry`: what a person says of a rollout.

Each is the user's own patch of `spec.rollout`. A command names the revision that was shown, so one
that comes late, when another revision is rolled out, does nothing.
"""

import asyncio
import secrets
from dataclasses import dataclass
from typing import Any

import click

from tidegate.cli.cluster import access
from tidegate.cli.cluster.access import Access, Cluster, Document, access_options
from tidegate.cli.cluster.denied import Denied
from tidegate.cli.inputs import documents
from tidegate.cli.levers.confirming import Acting
from tidegate.cli.levers.lever_options import acting_options, name_argument
from tidegate.core.levers.lever import FIELD_MANAGER

_TRIES = 5
"""The operator writes status at any time, which makes a new version of the resource."""


@dataclass(frozen=True)
class Verb:
    """What may be said: in which phases, what it leads to, and how it is asked."""

    name: str
    phases: frozenset[str]
    says: str
    help: str

    def patch(self, canary: str | None) -> dict[str, Any]:
        """Return the change of `spec.rollout`."""
        if self.name in ("pause", "resume"):
            return {"paused": self.name == "pause"}
        token = secrets.token_hex(8)
        command = {"action": self.name.capitalize(), "revision": canary, "token": token}
        return {"command": command, **({"paused": False} if self.name == "promote" else {})}


_ANY = frozenset({"Settled", "Canary", "Promoting", "Aborting", "Aborted"})
_VERBS = (
    Verb(
        "pause",
        _ANY,
        "It stays at the step that it has reached; a failure still takes it back.",
        "Keep a rollout at its step.",
    ),
    Verb("resume", _ANY, "It goes on from the step that it is at.", "Let a paused rollout go on."),
    Verb(
        "promote",
        frozenset({"Canary", "Aborting", "Aborted"}),
        "It gets all requests without further steps or judgement, and replaces all other pods.",
        "Take the new revision without further steps.",
    ),
    Verb(
        "abort",
        frozenset({"Canary", "Promoting"}),
        "All requests go back to the stable revision; the new one is not tried again by itself.",
        "Take the new revision back.",
    ),
    Verb(
        "retry",
        frozenset({"Aborting", "Aborted"}),
        "It is rolled out again from the first step, with evidence of its own.",
        "Try a revision that was taken back once more.",
    ),
)


def _command_of(verb: Verb) -> click.Command:
    @name_argument
    @access_options
    @acting_options
    def callback(
        name: str,
        namespace: str | None,
        context: str | None,
        kubeconfig: str | None,
        dry_run: bool,
        yes: bool,
        form: str,
    ) -> None:
        where = Access(namespace, context, kubeconfig)
        asyncio.run(_say(verb, where, name, Acting(dry_run, yes, form)))

    shown = f"{verb.help}\n\n{verb.says}\n\nExample: kubectl tidegate {verb.name} qwen3-32b"
    return click.command(verb.name, short_help=verb.help, help=shown)(callback)


COMMANDS = {verb.name: _command_of(verb) for verb in _VERBS}


async def _say(verb: Verb, where: Access, name: str, acting: Acting) -> None:
    async with access.connected(where) as cluster:
        resource = await cluster.deployment(name)
        rollout = (resource.get("status") or {}).get("rollout")
        if rollout is None:
            raise Denied(f"{name} has no status.rollout yet: look whether the operator runs")
        _require(verb, name, rollout)
        acting.tell([*_standing(cluster.namespace, name, rollout), verb.says])
        acting.confirm(f"{verb.name.capitalize()}?")
        stored = await _write(cluster, resource, verb, rollout.get("canary"), acting.dry_run)
        acting.tell(f"Warning: {told}" for told in cluster.warnings)
    done = "Not written, as a dry run is" if acting.dry_run else "Said"
    acting.tell([f"{done}; kubectl tidegate status {name} shows how it goes on."])
    if acting.form != "table":
        told = {"name": name, "namespace": cluster.namespace, "dryRun": acting.dry_run}
        spec = stored["spec"].get("rollout", {})
        rest = {"rollout": spec, "warnings": cluster.warnings}
        documents.print_documents([told | rest], acting.form)


def _require(verb: Verb, name: str, rollout: Document) -> None:
    phase = rollout.get("phase", "")
    if phase in verb.phases:
        return
    if phase == "Settled":
        raise Denied(f"nothing to {verb.name}: {name} is settled on revision {rollout['stable']}")
    wanted = " or ".join(sorted(verb.phases))
    raise Denied(f"nothing to {verb.name}: the rollout of {name} is {phase}, not {wanted}")


def _standing(namespace: str, name: str, rollout: Document) -> list[str]:
    canary = f", revision {rollout['canary']}" if rollout.get("canary") else ""
    because = f": {rollout['because']}" if rollout.get("because") else ""
    stands = f"{namespace}/{name}: {rollout.get('summary', rollout['phase'])}{canary}"
    return [f"{stands} beside stable {rollout['stable']}{because}"]


async def _write(
    cluster: Cluster, resource: Document, verb: Verb, canary: str | None, dry_run: bool
) -> Document:
    """Patch the spec that was shown; a newer version with another spec is refused.

    Raises:
        Denied: The API server or the webhook refuses, or somebody changed the spec meanwhile.
    """
    before, name = resource["metadata"], resource["metadata"]["name"]
    path = access.deployment_path(cluster.namespace, name)
    query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
    version = before["resourceVersion"]
    for _ in range(_TRIES):
        status, answer = await cluster.call(
            "PATCH",
            path,
            query=query | ({"dryRun": "All"} if dry_run else {}),
            body={
                "metadata": {"resourceVersion": version},
                "spec": {"rollout": verb.patch(canary)},
            },
            content_type="application/merge-patch+json",
        )
        if status < 300:
            stored: Document = answer
            return stored
        if status != 409:
            raise access.denied(status, answer)
        now = (await cluster.deployment(name))["metadata"]
        if (now["uid"], now.get("generation")) != (before["uid"], before.get("generation")):
            raise Denied(f"somebody changed {name} meanwhile, so nothing was written; try again")
        version = now["resourceVersion"]
    raise Denied("the resource changes too fast; try again")
