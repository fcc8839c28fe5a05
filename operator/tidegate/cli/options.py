"""The options that several commands share: for which nodes, and with which model config."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SHARED = (
    click.option("--nodes", "nodes_file", help="File with Nodes (kubectl get nodes -o yaml)."),
    click.option(
        "--gpu",
        "products",
        multiple=True,
        metavar="PRODUCT[@MIB[/CC]][=COUNT]",
        help="GPU product label, its memory label, an unknown card's compute capability, and GPUs "
        "per node (8 when absent); may be repeated.",
    ),
    click.option(
        "--config", "config_file", type=click.Path(exists=True), help="The model's config.json."
    ),
)


of_checkpoint = click.option(
    "--weights-index",
    type=click.Path(exists=True),
    metavar="PATH",
    help="The checkpoint's model.safetensors.index.json, a .safetensors file or a folder of them, "
    "of which headers alone are read: weights are counted rather than estimated.",
)


def where_it_runs(command: _Command) -> _Command:
    """Give a command --nodes, --gpu and --config, shown in this order."""
    for option in reversed(_SHARED):
        command = option(command)
    return command
