"""What a command cannot do in this cluster, now or for this user: one line with the fix, exit 1."""

from typing import IO, Any

import click


class Denied(click.ClickException):
    """The answer is no; the message names what stands in the way and the fix."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line on standard error."""
        click.echo(f"tidegate: {self.format_message()}", file=file, err=True)
