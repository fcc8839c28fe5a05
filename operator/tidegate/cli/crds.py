"""`tidegate crds`."""

import click

from tidegate.api import crd


@click.command("crds", short_help="Print the CustomResourceDefinitions.")
def command() -> None:
    """Print the CustomResourceDefinitions, made from the models.

    Example: tidegate crds | kubectl apply --server-side -f -
    """
    click.echo(crd.generate(), nl=False)
