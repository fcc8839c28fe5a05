"""The answers of `tidegate check` for a terminal."""

from collections.abc import Sequence

import click

from tidegate.cli.checking.check_answer import Answer
from tidegate.core.admission import Finding
from tidegate.core.checks import Severity

_MARKS = {
    Severity.REFUSE: ("refused", "red"),
    Severity.WARN: ("warning", "yellow"),
    Severity.INFORM: ("note", "cyan"),
}


def show(answers: Sequence[Answer]) -> None:
    """Print every finding, and after those of a resource its verdict."""
    is_alone = len({answer.source.path for answer in answers}) == 1
    for answer in answers:
        for finding in answer.findings:
            _show_finding(finding)
        where = "" if is_alone else f"{answer.source.path}: "
        click.echo(f"{where}{answer.name}: {_verdict(answer)}{_counts(answer)}")
    if len(answers) > 1:
        refused = sum(not answer.review.allowed for answer in answers)
        click.echo(f"{len(answers)} resources: {len(answers) - refused} allowed, {refused} refused")


def _verdict(answer: Answer) -> str:
    told, colour = ("allowed", "green") if answer.review.allowed else ("refused", "red")
    return click.style(told, fg=colour, bold=True)


def _counts(answer: Answer) -> str:
    found = [(mark, _count(answer, severity)) for severity, (mark, _) in _MARKS.items()]
    told = ", ".join(f"{count} {mark}{_plural(mark, count)}" for mark, count in found if count)
    return f" ({told})" if told else ""


def _show_finding(finding: Finding) -> None:
    mark, colour = _MARKS[finding.severity]
    where = " on ".join(part for part in (finding.pool, finding.node_class) if part)
    place = ", ".join(part for part in (where, finding.field) if part)
    head = click.style(f"{mark}: {finding.reason}", fg=colour, bold=True)
    value = f" = {finding.value}" if finding.value is not None else ""
    click.echo(f"{head} ({place}{value})")
    click.echo(f"  {finding.limit}")
    for change in [str(change) for change in finding.changes] or [finding.fix]:
        if change:
            click.echo(f"  → {change}")


def _count(answer: Answer, severity: Severity) -> int:
    return sum(finding.severity is severity for finding in answer.findings)


def _plural(mark: str, count: int) -> str:
    return "s" if count > 1 and mark != "refused" else ""
