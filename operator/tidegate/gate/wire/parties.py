"""Who stands on the sides of a relay: the client, and those who are told how far it is."""

from typing import Protocol

from tidegate.gate.exchange import Why
from tidegate.gate.wire.heads import Headers


class Reads(Protocol):
    """What a client's connection tells of how fast it reads."""

    def pause(self) -> None:
        """The client is behind."""

    def resume(self) -> None:
        """The client has caught up."""

    def abort(self) -> None:
        """The client is gone."""


class Client(Protocol):
    """Where an answer goes."""

    is_http10: bool
    is_paused: bool
    reads: "Reads | None"
    """Told when the client falls behind and when it has caught up."""

    def may_keep(self, kept_bytes: int) -> bool:
        """Note what is kept of an answer before it begins; False where there is no room for it."""

    def begin(self, status: int, headers: Headers, length: int, first: bytes) -> None:
        """Write the head and the first bytes of the body, framed."""

    def write(self, data: bytes) -> None:
        """Write bytes of the body, framed."""

    def finish(self) -> None:
        """The answer is whole."""

    def cut(self, last: bytes) -> None:
        """Write these last bytes and close, so that the answer does not look whole."""


class Progress(Protocol):
    """Who is told how far an answer is."""

    def first_token(self, now: float) -> None:
        """The first byte of the body came; another pod may still be asked in place of this one."""

    def begun(self) -> None:
        """The answer is this one: its client sees it from here on."""

    def produced(self, tokens: int, seconds: float, now: float) -> None:
        """So many more tokens came in this time."""

    def error_event(self, why: Why, message: str) -> bytes:
        """Make the event that ends a broken stream."""
