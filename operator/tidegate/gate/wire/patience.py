"""How long an engine's answer is waited for. Pure."""

from typing import Final

from tidegate.api.gate_config import Deadlines
from tidegate.gate.exchange import Ask
from tidegate.gate.values import value_class

SLOWEST_TOKEN_SECONDS: Final = 0.2
"""An answer that is no stream is waited for as long as so slow an engine would need for it."""


@value_class
class Patience:
    """Times of the loop's clock and spans in seconds that an answer has.

    Attributes:
        first: for the first byte of the body, from the sending on.
        between: from one lump of bytes to the next.
        until: when the whole must be over.
        streams: whether tokens come one by one; else nothing comes before the end.
    """

    first: float
    between: float
    until: float
    streams: bool = True


def patience(ask: Ask, has: Deadlines, begun_at: float) -> Patience:
    """Return the deadlines of a request; one that is no stream gives its first byte last."""
    first = has.first_token
    if not ask.streams:
        first += ask.output_limit * SLOWEST_TOKEN_SECONDS
    until = begun_at + has.total
    return Patience(min(first, has.total), has.between_chunks, until, ask.streams)
