"""How much all clients together make the gate hold, and who goes when it is too much. Pure.

Each of them is bounded, but four thousand times such a bound is more than a container has, and
who is killed for memory takes everybody's streams along. Requests' bodies are refused when there
is no room for more. What clients do not read cannot be refused, it grows after they were
admitted: then those go that have been behind for longest.
"""

from typing import Final, Protocol

USUAL_BYTES: Final = 512 * 1024 * 1024
"""Memory of a gate's container, where nothing else is told."""
BODIES_SHARE: Final = 1 / 4
BUFFERS_SHARE: Final = 1 / 8
FULL_SHARE: Final = 3 / 4
"""Of the buffers' share: from here on no new request is taken, before anybody has to go."""
UNCOUNTED_BYTES: Final = 8 * 1024
"""What one client's buffers may hold without being counted: any request that is being read."""


class Holder(Protocol):
    """A client for whom bytes are held."""

    def abort(self) -> None:
        """Give them up, and the connection with them."""


class Memory:
    """The bytes that are held for clients: bodies of requests, and what waits in buffers."""

    def __init__(self, total_bytes: int = USUAL_BYTES) -> None:
        self._most_bodies = int(total_bytes * BODIES_SHARE)
        self._most_buffered = int(total_bytes * BUFFERS_SHARE)
        self._buffers: dict[Holder, int] = {}
        self.bodies_bytes = 0
        self.buffered_bytes = 0

    def has_room(self, more_bytes: int = 0) -> bool:
        """Tell whether buffers may hold so much more before anybody has to go."""
        return self.buffered_bytes + more_bytes <= self._most_buffered * FULL_SHARE

    def may_hold(self, body_bytes: int) -> bool:
        """Reserve room for a request's body, given back by `let_go`."""
        if not self.has_room() or self.bodies_bytes + body_bytes > self._most_bodies:
            return False
        self.hold(body_bytes)
        return True

    def hold(self, body_bytes: int) -> None:
        """Count a body that is there in any case, until `let_go`."""
        self.bodies_bytes += body_bytes

    def let_go(self, body_bytes: int) -> None:
        """Give the room of a body back."""
        self.bodies_bytes -= body_bytes

    def buffers(self, holder: Holder, held_bytes: int) -> None:
        """Note what a client's buffers hold now; 0 once that is little or the client is gone.

        Who began to hold first is aborted first where all together hold too much.
        """
        self.buffered_bytes += held_bytes - self._buffers.get(holder, 0)
        if held_bytes:
            self._buffers[holder] = held_bytes  # in its old place, if it has one
        else:
            self._buffers.pop(holder, None)
        while self.buffered_bytes > self._most_buffered:
            slowest = next(iter(self._buffers))
            self.buffered_bytes -= self._buffers.pop(slowest)
            slowest.abort()
