"""Saying what will happen, and asking before it does."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from tidegate.cli.cluster.denied import Denied


@dataclass(frozen=True)
class Acting:
    """How a command acts: for real or not, asking or not, and what it prints."""

    dry_run: bool
    yes: bool
    form: str

    def tell(self, sentences: Iterable[str]) -> None:
        """Print sentences; beside the document where one is asked for."""
        for sentence in sentences:
            click.echo(sentence, err=self.form != "table")

    def confirm(self, question: str) -> None:
        """Go on only where the user says so.

        Raises:
            Denied: They do not, or there is no terminal to ask on and no --yes.
        """
        if self.dry_run or self.yes:
            return
        if not sys.stdin.isatty():
            raise Denied("nothing was changed: there is no terminal to ask on; give --yes")
        if not click.confirm(question, err=True):
            raise Denied("nothing was changed")


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something takes a while, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
