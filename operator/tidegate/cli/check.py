"""`tidegate check`: the admission verdict on a resource, for CI and GitOps."""

from typing import Any

import click

from tidegate.api.llmdeployment import LLMDeployment
from tidegate.api.reasons import Reason
from tidegate.cli import REFUSED, documents, options
from tidegate.core import checks
from tidegate.core.checks import Severity, Verdict
from tidegate.core.nodes import Node
from tidegate.errors import Refused, Wait

_MARKS = {
    Severity.REFUSE: ("refused", "red"),
    Severity.WARN: ("warning", "yellow"),
    Severity.INFORM: ("note", "cyan"),
}


@click.command("check", short_help="Say whether a resource is good, and what to change.")
@click.option("-f", "--filename", required=True, help="File with LLMDeployments; - for stdin.")
@options.where_it_runs
@click.option("--strict", is_flag=True, help="Exit with 1 on a warning, too.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
def command(
    filename: str,
    nodes_file: str | None,
    products: tuple[str, ...],
    config_file: str | None,
    strict: bool,
    output: str,
) -> None:
    """Say whether a resource is good: every fault, warning and cost, with the nearest change.

    Exits with 1 when it is refused.

    Example: tidegate check -f llmd.yaml --gpu NVIDIA-H100-80GB-HBM3
    """
    found = documents.deployments(filename)
    nodes = documents.nodes_of(nodes_file, products)
    answers = [(d, _verdicts(d, nodes, beside, config_file)) for d, beside in found]
    if output == "table":
        for deployment, verdicts in answers:
            _print(deployment.metadata["name"], verdicts)
    else:
        documents.print_documents([_wire(*answer) for answer in answers], output)
    grave = {Severity.REFUSE, Severity.WARN} if strict else {Severity.REFUSE}
    if any(verdict.severity in grave for _, verdicts in answers for verdict in verdicts):
        raise click.exceptions.Exit(REFUSED)


def _verdicts(
    deployment: LLMDeployment, nodes: list[Node], beside: list[Any], config_file: str | None
) -> list[Verdict]:
    try:
        config = documents.config_of(deployment.spec.model, beside, config_file)
    except (Refused, Wait) as refusal:
        field = getattr(refusal, "field", "spec.model.configRef")
        return [Verdict(Reason(refusal.reason), Severity.REFUSE, refusal.message, field)]
    return checks.check_spec(deployment.spec, config, nodes)[1]


def _wire(deployment: LLMDeployment, verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        "name": deployment.metadata["name"],
        "allowed": not _has(verdicts, Severity.REFUSE),
        "verdicts": [verdict.wire() for verdict in verdicts],
    }


def _print(name: str, verdicts: list[Verdict]) -> None:
    for severity in Severity:
        for verdict in verdicts:
            if verdict.severity is severity:
                _print_verdict(verdict)
    counts = [(mark, _count(verdicts, severity)) for severity, (mark, _) in _MARKS.items()]
    told = ", ".join(f"{count} {mark}{_plural(mark, count)}" for mark, count in counts if count)
    answer = "refused" if _has(verdicts, Severity.REFUSE) else "allowed"
    colour = "red" if answer == "refused" else "green"
    click.echo(f"{name}: {click.style(answer, fg=colour, bold=True)}{f' ({told})' if told else ''}")


def _print_verdict(verdict: Verdict) -> None:
    mark, colour = _MARKS[verdict.severity]
    where = " on ".join(part for part in (verdict.pool, verdict.node_class) if part)
    head = f"{mark}: {verdict.reason}"
    place = ", ".join(part for part in (where, verdict.field) if part)
    click.echo(f"{click.style(head, fg=colour, bold=True)}{f' ({place})' if place else ''}")
    click.echo(f"  {verdict.message}")
    for change in verdict.changes:
        click.echo(f"  → {change}")


def _has(verdicts: list[Verdict], severity: Severity) -> bool:
    return _count(verdicts, severity) > 0


def _count(verdicts: list[Verdict], severity: Severity) -> int:
    return sum(verdict.severity is severity for verdict in verdicts)


def _plural(mark: str, count: int) -> str:
    return "s" if count > 1 and mark != "refused" else ""
