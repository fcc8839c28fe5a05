"""`tidegate manifests`: what installs the operator."""

import re

import click


def _image(context: click.Context, option: click.Parameter, value: str) -> str:
    if not re.fullmatch(r"[!-~]+", value):
        raise click.BadParameter("must be an image such as registry.example/tidegate:0.1.0")
    return value


def _namespace(context: click.Context, option: click.Parameter, value: str) -> str:
    if len(value) > 63 or not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", value):
        raise click.BadParameter(
            "must be a DNS label: at most 63 small letters, digits and dashes between them"
        )
    return value


@click.command("manifests", short_help="Print what installs the operator in a cluster.")
@click.option("--image", required=True, callback=_image, help="Image of the operator.")
@click.option("--namespace", default="tidegate-system", callback=_namespace, show_default=True)
@click.option("--replicas", type=click.IntRange(1, 5), default=2, show_default=True)
def command(image: str, namespace: str, replicas: int) -> None:
    """Print the namespace, account, permissions, settings and Deployment of the operator.

    Example: tidegate manifests --image registry.example/tidegate:0.1.0 | kubectl apply -f -
    """
    from tidegate.cli.inputs import documents
    from tidegate.shell import install

    documents.print_documents(install.manifests(image, namespace, replicas), "yaml")
