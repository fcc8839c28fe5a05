"""The server, as its clients' connections see it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from tidegate.api.gate_config import Limits
from tidegate.gate.exchange import Head, Refusal
from tidegate.gate.wire.heads import Asked

if TYPE_CHECKING:
    from tidegate.gate.wire.client import ClientConnection


class Judge(Protocol):
    """Who says what may be read."""

    def limits(self) -> Limits:
        """The bounds that hold now."""

    def judge(self, head: Head) -> Refusal | None:
        """Judge a head before its body is read."""

    def may_hold(self, body_bytes: int) -> bool:
        """Reserve room for a request's body, given back by `let_go`."""

    def let_go(self, body_bytes: int) -> None:
        """Give the room back."""


class Host(Judge, Protocol):
    """The server, as its connections see it."""

    is_draining: bool

    def serve(self, client: "ClientConnection", asked: Asked, body: bytes) -> Callable[[], None]:
        """Begin to serve a whole request; returns what is called when the client leaves."""

    def refuse(self, client: "ClientConnection", head: Head | None, refusal: Refusal) -> None:
        """Answer a request that is not served, and count it."""

    def opened(self, client: "ClientConnection") -> bool:
        """Count a connection; False when there are too many."""

    def closed(self, client: "ClientConnection") -> None:
        """Count it no more."""

    def has_room(self, more_bytes: int) -> bool:
        """Tell whether so much more may be kept for it."""

    def buffers(self, client: "ClientConnection", held_bytes: int) -> None:
        """Note what is held for it beside a body."""
