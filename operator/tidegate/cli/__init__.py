"""The command `tidegate`: exit codes are 0 good, 1 no (refused, does not fit), 2 wrong usage.

Each command lives in a module of its own that is imported when it runs, so that a command pays only
for what it uses.
"""

import importlib
import sys
from typing import Any

import click

from tidegate import __version__
from tidegate.errors import Invalid, Refused, Wait

_COMMANDS = {
    "check": "Say whether a resource is good, and what to change.",
    "crds": "Print the CustomResourceDefinitions.",
    "explain": "Explain a reason of a condition, or a field of the resource.",
    "manifests": "Print what installs the operator in a cluster.",
    "plan": "Size a resource on each class of GPU node.",
    "render": "Print every object that a resource leads to.",
    "run": "Run the operator.",
}
REFUSED = 1
WRONG_USAGE = 2


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module = importlib.import_module(f"tidegate.cli.{name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tidegate")
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
def _group(debug: bool) -> None:
    """Keep vLLM inside its memory: size, check, render and run LLMDeployments."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        sys.exit(_group.main(args=given, prog_name="tidegate", standalone_mode=False) or 0)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.Abort:
        sys.exit(WRONG_USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(WRONG_USAGE)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except (Invalid, Refused, Wait) as error:
        if "--debug" in given:
            raise
        for line in _lines(error):
            click.echo(f"tidegate: {line}", err=True)
        sys.exit(WRONG_USAGE if isinstance(error, Invalid) else REFUSED)


def _lines(error: Any) -> list[str]:
    if isinstance(error, Invalid):
        return [str(problem) for problem in error.problems]
    return [f"{error.reason}: {error}"]
