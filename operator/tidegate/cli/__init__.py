"""The command `tidegate`: exit codes are 0 good, 1 no (refused, does not fit), 2 wrong usage.

Each command lives in a module of its own that is imported when it runs, so that a command pays only
for what it uses.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tidegate import __version__
from tidegate.cli import streams
from tidegate.cli.cluster.denied import Denied
from tidegate.errors import Invalid, Refused, Wait

_COMMANDS = {
    "abort": "Take the new revision back.",
    "bundle": "Gather everything that a bug report needs.",
    "check": "Say whether a resource is good, and what to change.",
    "crds": "Print the CustomResourceDefinitions.",
    "drain": "Have a pod leave, and wait until it is gone.",
    "explain": "Explain a reason of a condition, or a field of the resource.",
    "gate": "Run a gate: what clients of a deployment connect to.",
    "manifests": "Print what installs the operator in a cluster.",
    "open": "Let go of every lever.",
    "pause": "Keep a rollout at its step.",
    "plan": "Size a resource on each class of GPU node.",
    "promote": "Take the new revision without further steps.",
    "render": "Print every object that a resource leads to.",
    "resume": "Let a paused rollout go on.",
    "retry": "Try a revision that was taken back once more.",
    "run": "Run the operator.",
    "runbook": "Print what to do about an alert.",
    "shed": "Turn a share of the requests away, for a while.",
    "shift": "Have another deployment serve a share of the requests, for a while.",
    "status": "Show what the gates of a deployment have reserved.",
    "top": "Show what a deployment does, live.",
}
_ROLLOUT_VERBS = frozenset({"abort", "pause", "promote", "resume", "retry"})
"""Commands that differ in a word only, all in one module."""
REFUSED = 1
WRONG_USAGE = 2


@contextmanager
def _closing_well() -> Iterator[None]:
    """End with 0 where a pipe closes: click itself would end with 1."""
    try:
        yield
    except BrokenPipeError as closed:
        streams.discard()
        raise click.exceptions.Exit(0) from closed


def command_named(name: str) -> click.Command:
    """Import a command."""
    if name in _ROLLOUT_VERBS:
        verbs: dict[str, click.Command] = importlib.import_module(
            "tidegate.cli.rollout_verbs"
        ).COMMANDS
        return verbs[name]
    command: click.Command = importlib.import_module(f"tidegate.cli.{name}").command
    return command


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _closing_well():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _closing_well():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return command_named(name) if name in _COMMANDS else None

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
    streams.prepare()
    try:
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        streams.discard()
        code = 0
    except OSError as error:
        streams.discard()
        code = _fail(given, f"{error.filename or 'output'}: {error.strerror or error}")
    except Exception as bug:  # the last guard: nobody is to read a trace unasked
        told = f"a bug of Tidegate: {type(bug).__name__}: {' '.join(str(bug).split())[:500]}"
        code = _fail(given, f"{told}; run with --debug for the trace")
    sys.exit(code)


def _fail(given: list[str], message: str) -> int:
    if "--debug" in given:
        raise  # what is being handled
    click.echo(f"tidegate: {message}", err=True)
    return WRONG_USAGE


def _run(given: list[str]) -> int:
    try:
        return _group.main(args=given, prog_name="tidegate", standalone_mode=False) or 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        return WRONG_USAGE
    except click.ClickException as error:
        error.show()
        return REFUSED if isinstance(error, Denied) else WRONG_USAGE
    except (Invalid, Refused, Wait) as error:
        if "--debug" in given:
            raise
        for line in _lines(error):
            click.echo(f"tidegate: {line}", err=True)
        return WRONG_USAGE if isinstance(error, Invalid) else REFUSED


def _lines(error: Any) -> list[str]:
    if isinstance(error, Invalid):
        return [str(problem) for problem in error.problems]
    return [f"{error.reason}: {error}"]
