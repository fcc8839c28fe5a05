"""What `tidegate plan` shows of a resource or a command line: tables, JSON, a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tidegate.cli import verdict
from tidegate.cli.inputs import documents
from tidegate.cli.inputs.model_files import ModelFiles
from tidegate.cli.verdict import Verdict
from tidegate.core.nodes import Node
from tidegate.core.what_if import axes, rows
from tidegate.core.what_if.axes import Combination
from tidegate.core.what_if.rows import Row
from tidegate.errors import Invalid, Problem


@dataclass(frozen=True)
class Subject:
    """What is to be sized, and on what, as the options say it."""

    filename: str | None
    serve_line: str | None
    nodes_file: str | None
    products: Sequence[str]
    files: ModelFiles
    engine_version: str | None

    def nodes(self) -> list[Node]:
        """Return the nodes that it is sized for."""
        return documents.nodes_of(self.nodes_file, self.products)


def show(
    subject: Subject,
    varied: Sequence[str],
    sort_key: str | None,
    html_file: str | None,
    output: str,
) -> bool:
    """Show the plan, or the table of what-ifs where something is varied; say whether any fits.

    Raises:
        Invalid: The input cannot be read.
    """
    if subject.engine_version is not None and subject.serve_line is None:
        raise click.UsageError("--engine-version belongs to --serve; a resource has engine.version")
    if sort_key is not None and not varied:
        raise click.UsageError("--sort orders the table of --vary; give --vary FIELD=A,B")
    nodes = subject.nodes()
    if not varied:
        found = _verdicts(subject, nodes)
        _write_page(html_file, found, [])
        _show_verdicts(found, output)
        return all(one.plan is not None for one in found)
    combinations = axes.combinations(axes.parse(varied))
    named = [
        (name, rows.ordered(unsorted, sort_key))
        for name, unsorted in _tables(subject, nodes, combinations)
    ]
    if html_file is not None:
        _write_page(html_file, _verdicts(subject, nodes), named)
    _show_tables(named, output)
    return all(any(row.held for row in of_one) for _, of_one in named)


def _verdicts(subject: Subject, nodes: list[Node]) -> list[Verdict]:
    if subject.serve_line is not None:
        from tidegate.cli.planning import plan_serve

        version, files = subject.engine_version, subject.files
        return [plan_serve.verdict(subject.serve_line, version, nodes, files)]
    from tidegate.cli.planning import plan_resource

    assert subject.filename is not None  # the command looked
    return plan_resource.verdicts(subject.filename, nodes, subject.files)


def _tables(
    subject: Subject, nodes: list[Node], combinations: Sequence[Combination]
) -> list[tuple[str, list[Row]]]:
    if subject.serve_line is not None:
        from tidegate.cli.planning import plan_serve

        version, files = subject.engine_version, subject.files
        line = subject.serve_line
        return [plan_serve.table(line, version, nodes, files, combinations)]
    from tidegate.cli.planning import plan_resource

    assert subject.filename is not None  # the command looked
    return plan_resource.tables(subject.filename, nodes, subject.files, combinations)


def _show_verdicts(found: Sequence[Verdict], output: str) -> None:
    if output != "table":
        documents.print_documents([verdict.wire(one) for one in found], output)
        return
    from tidegate.cli.planning import tables  # rich is imported only where a table is printed

    for one in found:
        tables.print_verdict(one)


def _show_tables(named: Sequence[tuple[str, list[Row]]], output: str) -> None:
    from tidegate.cli.planning import what_if_tables

    if output != "table":
        documents.print_documents([what_if_tables.wire(*one) for one in named], output)
        return
    for name, of_one in named:
        what_if_tables.show(name, of_one)


def _write_page(
    path: str | None, found: Sequence[Verdict], named: Sequence[tuple[str, list[Row]]]
) -> None:
    if path is None:
        return
    from tidegate.cli.planning import page

    text = page.render(found, named)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Invalid([Problem("--html", f"{path} cannot be written: {error}")]) from error
