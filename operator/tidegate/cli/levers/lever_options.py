"""The arguments and options of the levers."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tidegate.api import text
from tidegate.api.quantities import parse_duration
from tidegate.cli.cluster import completing

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DIGITS = re.compile(r"[0-9]{1,3}")


class Duration(click.ParamType[float]):
    """A Go duration such as `30m`, more than 0s and at most 24h; as seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            self.fail(f"{value} {error}", param, ctx)
        if seconds < 1:
            self.fail(f"{value} is too short: at least 1s", param, ctx)
        return seconds


class Share(click.ParamType[float]):
    """A whole percentage from 1 to 100 in plain digits; `%` may follow."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        digits = str(value).removesuffix("%")
        if not _DIGITS.fullmatch(digits) or not 1 <= int(digits) <= 100:
            self.fail(
                f"{value} must be a whole percent from 1 to 100, such as 50 for one half; "
                "tidegate open NAME lets go of a lever",
                param,
                ctx,
            )
        return float(digits)


_LONGEST_REASON = 256
"""Characters, as `spec.overload.override.reason` has them."""


class Named(click.ParamType[str]):
    """A name of Kubernetes: one part of a DNS name; with `dots` several of them."""

    name = "name"

    def __init__(self, dots: bool = False) -> None:
        self._form, self._longest = (text.DNS_NAME, 253) if dots else (text.DNS_LABEL, 63)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read it."""
        told = str(value)
        if len(told) > self._longest or not re.fullmatch(self._form.pattern, told):
            shown = repr(told[: self._longest])
            at_most = f"at most {self._longest} characters"
            self.fail(f"{shown} is no name: it {self._form.says}, {at_most}", param, ctx)
        return told


class Reason(click.ParamType[str]):
    """Why a lever is pulled: something, and at most 256 characters."""

    name = "reason"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read it."""
        told = str(value)
        if not told.strip():
            self.fail("say why, for those who come later", param, ctx)
        if len(told) > _LONGEST_REASON:
            at_most = f"at most {_LONGEST_REASON} characters"
            self.fail(f"it has {len(told)} characters; {at_most}", param, ctx)
        return told


def name_argument(command: _Command) -> _Command:
    """Give a command NAME, a deployment of the namespace."""
    return click.argument("name", type=Named(), shell_complete=completing.deployments)(command)


def form_option(command: _Command) -> _Command:
    """Give a command --output."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["table", "json", "yaml"]),
        default="table",
        show_default=True,
    )(command)


def acting_options(command: _Command) -> _Command:
    """Give a command --dry-run, --yes and --output."""
    command = form_option(command)
    command = click.option("-y", "--yes", is_flag=True, help="Do not ask.")(command)
    return click.option(
        "--dry-run", is_flag=True, help="Have the API server check it, and change nothing."
    )(command)


def lever_options(command: _Command) -> _Command:
    """Give a command --for and --reason, both needed."""
    for option in (
        click.option(
            "--reason",
            type=Reason(),
            required=True,
            metavar="TEXT",
            help="Why, for those who come later; such as INC-1.",
        ),
        click.option(
            "--for",
            "seconds",
            type=Duration(),
            required=True,
            metavar="DURATION",
            help="When it lapses, from now: 30m, 2h, at most 24h.",
        ),
    ):
        command = option(command)
    return command
