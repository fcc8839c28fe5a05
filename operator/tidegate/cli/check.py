"""`tidegate check`: the admission verdict on resources, for CI and GitOps."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tidegate.cli import REFUSED, WRONG_USAGE, options
from tidegate.cli.checking import (
    check_answer,
    check_facts,
    check_github,
    check_nodes,
    check_sarif,
    check_sources,
    check_text,
)
from tidegate.cli.checking.check_answer import Answer
from tidegate.cli.checking.check_facts import Texts
from tidegate.cli.checking.check_sources import Source, Sources
from tidegate.cli.inputs import documents, files
from tidegate.core import model_config
from tidegate.core.admission import Facts, Memo, paths, review
from tidegate.core.nodes import Node, NodeClassSetting
from tidegate.flow.ports import Settings

_FORMS = ("text", "json", "yaml", "sarif", "github")


@click.command("check", short_help="Say whether a resource is good, and what to change.")
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    required=True,
    help="File or folder with LLMDeployments, - for stdin; may be repeated.",
)
@options.where_it_runs
@click.option("--cluster", is_flag=True, help="Nodes and ConfigMaps of the kubeconfig's cluster.")
@click.option("--context", help="Context of the kubeconfig, for --cluster.")
@click.option("--settings", "settings_file", help="The operator's settings, for their rules.")
@click.option("--strict", is_flag=True, help="Exit with 1 on a warning, too.")
@click.option("-o", "--output", type=click.Choice(_FORMS), default="text", show_default=True)
def command(
    filenames: tuple[str, ...],
    nodes_file: str | None,
    products: tuple[str, ...],
    config_file: str | None,
    cluster: bool,
    context: str | None,
    settings_file: str | None,
    strict: bool,
    output: str,
) -> None:
    """Say what admission says: every fault, warning and cost, with the nearest change.

    Without --gpu, --nodes or --cluster it is not known whether anything fits, and that is a
    warning. Other kinds in the files are passed over; ConfigMaps, Services and workloads beside a
    resource are looked at where it names them or shares labels with them.

    Exits with 1 when a resource is refused, with 2 when something cannot be read.

    Examples: tidegate check -f llmd.yaml --gpu NVIDIA-H100-80GB-HBM3;
    kustomize build . | tidegate check -f - --cluster; tidegate check -f clusters/ -o github
    """
    if cluster and (nodes_file or products):
        raise click.UsageError("give --cluster, --nodes or --gpu, one of them")
    found = check_sources.read(filenames)
    check_sources.require_deployments(filenames, found)
    settings = _settings(settings_file)
    nodes, texts = _world(found, nodes_file, products, cluster, context, settings.node_classes)
    known = Facts(
        nodes=tuple(nodes) if nodes is not None else None,
        model_config=_config(config_file),
        rules=settings.admission,
    )
    answers = _answers(found, known, texts)
    _print(answers, output)
    for problem in found.unreadable:
        click.echo(f"tidegate: {problem}", err=True)
    if found.unreadable:
        raise click.exceptions.Exit(WRONG_USAGE)
    if not check_answer.is_good(answers, strict=strict):
        raise click.exceptions.Exit(REFUSED)


def _answers(found: Sources, known: Facts, texts: Texts) -> list[Answer]:
    """Review every resource; those that differ by their names alone are judged once."""
    memo, beside = Memo(), check_facts.beside(found.documents)
    answers = []
    for source in found.deployments:
        facts = check_facts.of(source, beside[source.namespace], known, texts)
        answers.append(Answer(source, review(None, source.document, facts, memo)))
    return answers


def _world(
    found: Sources,
    nodes_file: str | None,
    products: Sequence[str],
    cluster: bool,
    context: str | None,
    classes: Sequence[NodeClassSetting],
) -> tuple[list[Node] | None, Texts]:
    """Return the nodes, None where nothing says which, and what the cluster knows of configs."""
    if cluster:
        from tidegate.cli.checking import check_cluster

        read, texts = check_cluster.ask(context, _config_names(found.deployments))
        return check_nodes.read(read, classes), texts
    if nodes_file is not None and not products:
        return check_nodes.of_file(nodes_file, classes), {}
    if nodes_file is None and not products:
        return None, {}
    return documents.nodes_of(nodes_file, products), {}


def _config_names(deployments: Sequence[Source]) -> Iterator[tuple[str, str, str]]:
    """Yield the ConfigMaps that resources name, as they are written."""
    for source in deployments:
        for field in (("configRef",), ("weights", "indexRef")):
            ref = paths.value(source.document, ("spec", "model", *field))
            name, key = (paths.value(ref, (part,)) for part in ("name", "key"))
            if isinstance(name, str) and isinstance(key, str):
                yield source.namespace, name, key


def _config(path: str | None) -> Mapping[str, Any] | None:
    if path is None:
        return None
    return model_config.parse(files.read(path, "--config"), f"--config {path}")


def _settings(path: str | None) -> Settings:
    if path is None:
        return Settings()
    from tidegate.shell import settings

    return settings.load(Path(path)).for_pass()


def _print(answers: Sequence[Answer], form: str) -> None:
    if form == "text":
        check_text.show(answers)
    elif form == "github":
        for line in check_github.lines(answers):
            click.echo(line)
    elif form == "sarif":
        click.echo(json.dumps(check_sarif.document(answers), indent=2))
    elif answers:
        documents.print_documents([answer.wire() for answer in answers], form)
