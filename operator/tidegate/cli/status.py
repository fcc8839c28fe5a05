"""`tidegate status`, also `kubectl tidegate status`: the KV of engines, and how a canary does."""

import time
from collections.abc import Sequence
from typing import Any

import click

from tidegate.cli.cluster import canary_table, status_read, status_sum, untold
from tidegate.cli.cluster.access import Access, access_options
from tidegate.cli.cluster.status_read import Found
from tidegate.cli.cluster.status_sum import PodTotal
from tidegate.cli.cluster.untold import UntoldPod
from tidegate.cli.inputs import documents
from tidegate.cli.levers.lever_options import form_option, name_argument
from tidegate.cli.planning import tables

NOT_WELL = 1
_COLUMNS = (
    ("POD", False),
    ("POOL", False),
    ("REVISION", False),
    ("RESERVED", True),
    ("CAPACITY", True),
    ("USED", True),
    ("KV", True),
    ("REQUESTS", True),
    ("PREFILL BACKLOG", True),
    ("LAST SCRAPE", True),
    ("STATE", False),
)


@click.command("status", short_help="Show what gates have reserved, and a canary beside stable.")
@name_argument
@access_options
@form_option
def command(
    name: str, namespace: str | None, context: str | None, kubeconfig: str | None, form: str
) -> None:
    """Show each pod's KV tokens, reserved and in all, the queue, and the last scrape.

    KV is how full the cache is by the pod's own metrics, a dash where it did not tell of late.
    Pods that no gate tells of are shown as the API server knows them.

    While a revision is tried also its step, its clock, and what the last look at it measured,
    beside the stable revision.

    Exits with 1 where the deployment is not there or no gate answers.

    Example: kubectl tidegate status qwen3-32b -n chat
    """
    found = status_read.ask(Access(namespace, context, kubeconfig), name)
    answer = document(found)
    if form == "table":
        _print(answer, status_sum.pods(found.gates), found.untold)
        if found.canary is not None:
            canary_table.show(found.canary, time.time())
    else:
        documents.print_documents([answer], form)
    if not any(gate.told for gate in found.gates):
        raise click.exceptions.Exit(NOT_WELL)


def document(found: Found) -> dict[str, Any]:
    """Return what is known, as `--output json` shows it."""
    metadata, status = found.resource["metadata"], found.resource.get("status") or {}
    ready: dict[str, str] = next(
        (c for c in status.get("conditions") or () if c["type"] == "Ready"), {}
    )
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "ready": ready.get("status", "Unknown"),
        "reason": ready.get("reason", ""),
        "message": ready.get("message", ""),
        "address": status.get("address"),
        "queued": status_sum.queued(found.gates),
        "shedPercent": status_sum.largest_share(found.gates, "shedPercent"),
        "shiftPercent": status_sum.largest_share(found.gates, "shiftPercent"),
        "overload": status.get("overload"),
        "rollout": status.get("rollout"),
        "canary": found.canary.document() if found.canary else None,
        "gates": [
            {"name": gate.name, "answers": gate.told is not None, "error": gate.error or None}
            for gate in found.gates
        ],
        "pods": [total.document() for total in status_sum.pods(found.gates)],
        "podsNoGateTellsOf": [pod.document() for pod in found.untold],
    }


def _print(
    answer: dict[str, Any], pods: Sequence[PodTotal], untold_pods: Sequence[UntoldPod]
) -> None:
    gates = answer["gates"]
    answering = sum(gate["answers"] for gate in gates)
    title = (
        f"{answer['namespace']}/{answer['name']}  ready: {answer['ready']} {answer['reason']}  "
        f"{answer['address'] or 'no address'}  {answering} of {len(gates)} gates answer, "
        f"{answer['queued']} requests wait"
    )
    for share in ("shed", "shift"):
        if answer[f"{share}Percent"]:
            title += f", {share} {answer[f'{share}Percent']:g} %"
    rows = [_row(total) for total in pods]
    tables.print_table(title, _COLUMNS, rows + [_untold_row(pod) for pod in untold_pods])
    tables.print_sentences(untold.why(answer))
    tables.print_sentences(_overload(answer["overload"] or {}))
    tables.print_sentences(_rollout(answer["rollout"] or {}))
    for gate in gates:
        if gate["error"]:
            click.echo(f"gate {gate['name']} does not answer: {gate['error']}", err=True)


def _overload(told: dict[str, Any]) -> list[str]:
    """Say what the loop or a lever holds, why, and how fast the loop can be."""
    sentences = []
    if told:
        sentences.append(f"overload: {told['state']}, {told['reason']}: {told['message']}")
        sentences += told.get("because") or ()
    override = told.get("override")
    if override:
        by = override.get("setBy") or "an unknown user"
        sentences.append(
            f"lever: {override['action']} until {override['until']}, set by {by} "
            f"({override['reason']}); kubectl tidegate open lets go"
        )
    reaction = told.get("reaction")
    if reaction:
        sentences.append(str(reaction["message"]))
    return sentences


def _rollout(told: dict[str, Any]) -> list[str]:
    """Say where a rollout stands, what led to it, and what its looks have said."""
    if not told.get("canary"):
        return []
    beside = f"revision {told['canary']} beside stable {told['stable']}"
    if told.get("baseline"):
        beside += f", compared with its fresh pods, baseline {told['baseline']}"
    because = f": {told['because']}" if told.get("because") else ""
    looks = told.get("verdicts") or {}
    counted = ", ".join(f"{count} {name}" for name, count in looks.items() if count)
    sentences = [f"rollout: {told['summary']}, {beside}{because}"]
    return [*sentences, f"looks at this step: {counted}"] if counted else sentences


def _row(total: PodTotal) -> tuple[str, ...]:
    used = total.reserved_tokens / total.capacity_tokens if total.capacity_tokens else None
    age = total.scrape_age_seconds
    return (
        total.name,
        total.pool,
        total.revision,
        f"{total.reserved_tokens:,}",
        f"{total.capacity_tokens:,}",
        "-" if used is None else f"{used:.0%}",
        "-" if total.kv_usage is None else f"{total.kv_usage:.0%}",
        str(total.requests),
        f"{total.prefill_backlog_tokens:,}",
        "never" if age is None else f"{age:.1f} s ago",
        ", ".join(sorted(total.states)) or "serves",
    )


def _untold_row(pod: UntoldPod) -> tuple[str, ...]:
    numbers = ("-",) * (len(_COLUMNS) - 4)
    return (pod.name, pod.pool, pod.revision, *numbers, pod.state)
