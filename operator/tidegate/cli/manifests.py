"""`tidegate manifests`: what installs the operator."""

import click


@click.command("manifests", short_help="Print what installs the operator in a cluster.")
@click.option("--image", required=True, help="Image of the operator.")
@click.option("--namespace", default="tidegate-system", show_default=True)
@click.option("--replicas", type=click.IntRange(1, 5), default=2, show_default=True)
def command(image: str, namespace: str, replicas: int) -> None:
    """Print the namespace, account, permissions, settings and Deployment of the operator.

    Example: tidegate manifests --image registry.example/tidegate:0.1.0 | kubectl apply -f -
    """
    from tidegate.cli import documents
    from tidegate.shell import install

    documents.print_documents(install.manifests(image, namespace, replicas), "yaml")
