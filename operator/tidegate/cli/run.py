"""`tidegate run`: the operator."""

import asyncio
from pathlib import Path

import click


@click.command("run", short_help="Run the operator.")
@click.option(
    "--config", "config_file", type=click.Path(exists=True, path_type=Path), help="Settings."
)
@click.option("--kubeconfig", help="Kubeconfig file; inside a pod its own account is used.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def command(
    config_file: Path | None, kubeconfig: str | None, context: str | None, log_level: str
) -> None:
    """Run the operator until it is stopped.

    Example: tidegate run --config settings.yaml --kubeconfig ~/.kube/config
    """
    from tidegate.shell import operate, settings, telemetry

    loaded = settings.load(config_file)
    telemetry.log_to_stderr(log_level)
    asyncio.run(operate.run(kubeconfig, context, loaded))
