"""`tidegate plan`: sizes a resource on each class of node, without a cluster."""

from typing import Any

import click

from tidegate.api.llmdeployment import LLMDeployment
from tidegate.cli import REFUSED, documents
from tidegate.core import nodes as node_classes
from tidegate.core import plan as planning
from tidegate.core import plan_status
from tidegate.core.nodes import Node
from tidegate.core.plan import Plan
from tidegate.errors import Refused, Wait

Verdict = tuple[LLMDeployment, Plan | None, Refused | Wait | None]


@click.command("plan", short_help="Size a resource on each class of GPU node.")
@click.option("-f", "--filename", required=True, help="File with LLMDeployments; - for stdin.")
@click.option("--nodes", "nodes_file", help="File with Nodes (kubectl get nodes -o yaml).")
@click.option(
    "--gpu",
    "products",
    multiple=True,
    metavar="PRODUCT[=COUNT]",
    help="GPU product label and GPUs per node (8 when absent); may be repeated.",
)
@click.option(
    "--config", "config_file", type=click.Path(exists=True), help="The model's config.json."
)
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table")
def command(
    filename: str,
    nodes_file: str | None,
    products: tuple[str, ...],
    config_file: str | None,
    output: str,
) -> None:
    """Size a resource on each class of GPU node: what memory holds, and why.

    Example: tidegate plan -f llmd.yaml --gpu NVIDIA-H100-80GB-HBM3 --gpu NVIDIA-L40S=4
    """
    found = documents.deployments(filename)
    nodes = documents.nodes_of(nodes_file, products)
    verdicts = [_verdict(deployment, nodes, beside, config_file) for deployment, beside in found]
    if output == "table":
        _print_tables(verdicts)
    else:
        documents.print_documents([_wire(*verdict) for verdict in verdicts], output)
    if any(refusal for _, _, refusal in verdicts):
        raise click.exceptions.Exit(REFUSED)


def _verdict(
    deployment: LLMDeployment, nodes: list[Node], beside: list[Any], config_file: str | None
) -> Verdict:
    """Plan one resource; a refusal is an answer here, not an error."""
    spec = deployment.spec
    try:
        config = documents.config_of(spec.model, beside, config_file)
        free = node_classes.free_gpus(nodes, (), None, None)
        return deployment, planning.make(spec, config, nodes, free, {}), None
    except (Refused, Wait) as refusal:
        return deployment, None, refusal


def _wire(
    deployment: LLMDeployment, plan: Plan | None, refusal: Refused | Wait | None
) -> dict[str, Any]:
    """Return a verdict as documented in docs/reference/cli.md."""
    answer: dict[str, Any] = {"name": deployment.metadata["name"], "fits": plan is not None}
    if plan is None:
        assert refusal is not None  # one of the two is there
        answer["refused"] = {
            "reason": str(refusal.reason),
            "message": refusal.message,
            "field": getattr(refusal, "field", None),
        }
        return answer
    answer["refused"] = None
    answer["mode"] = plan.mode
    answer["revision"] = plan.revision
    answer["engineVersion"] = plan.engine_version
    answer["plan"] = [entry.wire() for entry in plan_status.entries(plan)]
    answer["excluded"] = [
        {"pool": e.pool, "nodeClass": e.node_class, "reason": str(e.reason), "message": e.message}
        for e in plan.exclusions
    ]
    answer["because"] = list(plan.because)
    return answer


def _print_tables(verdicts: list[Verdict]) -> None:
    from tidegate.cli import tables  # rich is imported only where a table is printed

    for deployment, plan, refusal in verdicts:
        if plan is not None:
            tables.print_plan(deployment.metadata["name"], plan)
        else:
            assert refusal is not None  # one of the two is there
            tables.print_refusal(deployment.metadata["name"], refusal)
