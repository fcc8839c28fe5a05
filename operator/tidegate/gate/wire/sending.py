"""Sends one request to one pod and waits for its answer's end."""

from collections.abc import Callable
from typing import TypeVar

from tidegate.gate.exchange import Outcome, Why
from tidegate.gate.wire.answer import Answer, End
from tidegate.gate.wire.heads import Headers, write_request
from tidegate.gate.wire.pods import Address, PodConnection, Unreachable
from tidegate.gate.wire.wiring import Wiring

Kind = TypeVar("Kind", bound=Answer)


def host_of(address: Address) -> str:
    """Return the `host` header of who is asked; an IPv6 address stands in brackets."""
    name, port = address
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


class Exchange:
    """The sending of one request's bodies; `answer` is the last one, over or under way."""

    def __init__(self, wiring: Wiring, request_id: str, path: str, headers: Headers) -> None:
        self._wiring = wiring
        self._request_id = request_id
        self._path = path
        self._headers = headers
        self.answer: Answer | None = None

    async def send(
        self,
        address: Address,
        body: bytes,
        connect_seconds: float,
        make: Callable[[PodConnection], Kind],
    ) -> tuple[End, Kind | None]:
        """Send a body and wait until the answer is over.

        A kept connection may have been closed by the engine just now. If it ends before any byte
        of an answer, the request goes out once more, to the same pod on a new connection.
        """
        head = write_request(self._path, host_of(address), self._request_id, self._headers, body)
        connection = self._wiring.pods.idle(address)
        while True:
            try:
                connection = connection or await self._wiring.pods.open(address, connect_seconds)
            except Unreachable as error:
                return End(Outcome.UNREACHABLE, Why.ENGINE_ERROR, str(error)), None
            was_reused = connection.is_reused
            self.answer = answer = make(connection)
            answer.ask(head, body)
            end = await answer.end
            is_stale = end.was_silent and end.outcome is Outcome.ENGINE_FAILED and was_reused
            if not is_stale:
                return end, answer
            connection = None

    def abort(self) -> None:
        """Close the pod's connection at once, if an answer is under way."""
        if self.answer is not None:
            self.answer.abort()
