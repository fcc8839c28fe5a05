"""`tidegate render`: every object that a resource leads to, as YAML."""

import click

from tidegate.cli import options
from tidegate.cli.inputs import documents
from tidegate.core import nodes as node_classes
from tidegate.core import plan as planning
from tidegate.core.render import render as rendering


@click.command("render", short_help="Print every object that a resource leads to.")
@click.option("-f", "--filename", required=True, help="File with LLMDeployments; - for stdin.")
@options.where_it_runs
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml")
def command(
    filename: str,
    nodes_file: str | None,
    products: tuple[str, ...],
    config_file: str | None,
    output: str,
) -> None:
    """Print every object that a resource leads to, as the operator would apply it.

    Example: tidegate render -f llmd.yaml --gpu NVIDIA-H100-80GB-HBM3
    """
    found = documents.deployments(filename)
    nodes = documents.nodes_of(nodes_file, products)
    free = node_classes.free_gpus(nodes, (), None, None)
    objects = []
    for deployment, beside in found:
        config = documents.config_of(deployment.spec.model, beside, config_file)
        plan = planning.make(deployment.spec, config, nodes, free, {})
        objects += rendering.preview(deployment, plan)
    documents.print_documents(objects, output)
