"""What the wire tells of its work: for metrics and for one log line a request.

The wire calls an `Observer` from its event loop, so each call must be quick and must not raise.
Nothing here holds a prompt, an answer or a key.
"""

from typing import Protocol

from tidegate.gate.exchange import Ask, Outcome, Pod, Usage, Why
from tidegate.gate.values import value_class


@value_class
class Finished:
    """One request from its head to its end, whether or not it was served.

    Attributes:
        request_id: the id that client, engines and logs share.
        surface: the path, of those that the gate serves; empty for any other.
        model: the model asked for; empty where the body was not read.
        tenant: short name of who asked; empty where the body was not read.
        priority: class of who asked; None where the body was not read.
        status: status of the answer; 0 where the client left before one.
        why: why it was not served, or not to its end; None when it was.
        outcome: how its last visit to a pod ended; None when it had none, unless its client or
            the gate left before its end.
        pod: name of the last pod; empty when it had none.
        prefill: name of the prefill pod of a pair; empty without one.
        revision: the pods' revision; empty without a pod.
        shifted_to: the deployment that served it instead; empty for this one.
        streamed: whether the answer was a stream.
        visits: pods that it was sent to in turn, retries included.
        prompt_tokens: what the gate estimated; 0 where the body was not read.
        usage: what the engine counted; None where it did not tell, or another deployment's did.
        body_bytes: length of the request's body.
        answer_bytes: bytes of the answer that were passed on.
        queued_seconds: from the whole request to its seat; None without one.
        ttft_seconds: from the whole request to the answer's first byte; None without one.
        total_seconds: from the head to the end.
        traceparent: the W3C trace context that came with it; empty without one.
    """

    request_id: str
    surface: str
    model: str
    tenant: str
    priority: int | None
    status: int
    why: Why | None
    outcome: Outcome | None
    pod: str
    prefill: str
    revision: str
    shifted_to: str
    streamed: bool
    visits: int
    prompt_tokens: int
    usage: Usage | None
    body_bytes: int
    answer_bytes: int
    queued_seconds: float | None
    ttft_seconds: float | None
    total_seconds: float
    traceparent: str

    @classmethod
    def unserved(
        cls,
        request_id: str,
        surface: str,
        status: int,
        why: Why | None,
        *,
        answer_bytes: int,
        traceparent: str,
    ) -> "Finished":
        """Describe a request that the gate answered itself, without reading a body."""
        return cls(
            request_id=request_id,
            surface=surface,
            model="",
            tenant="",
            priority=None,
            status=status,
            why=why,
            outcome=None,
            pod="",
            prefill="",
            revision="",
            shifted_to="",
            streamed=False,
            visits=0,
            prompt_tokens=0,
            usage=None,
            body_bytes=0,
            answer_bytes=answer_bytes,
            queued_seconds=None,
            ttft_seconds=None,
            total_seconds=0.0,
            traceparent=traceparent,
        )


class Observer(Protocol):
    """Who is told. Every request ends with one call of `finished`, by whichever way it ended."""

    def connections(self, count: int) -> None:
        """So many client connections are open now."""

    def admitted(self, ask: Ask, pod: Pod, waited_seconds: float) -> None:
        """A request got its seat on this pod after that time in the queue."""

    def first_token(self, ask: Ask, revision: str, seconds: float) -> None:
        """The first byte of an answer came, that long after the request was whole.

        `revision` is that of all pods that it was sent to, empty where they are of several: what a
        pod of one took is not another's time.
        """

    def pace(self, ask: Ask, pod: Pod, tokens: int, seconds: float) -> None:
        """`tokens` more came in the `seconds` since those before: told once for a lump of them."""

    def prefilled(self, prefill: Pod, seconds: float) -> None:
        """A pair's first step returned, that long after it was sent."""

    def transferred(self, decode: Pod, seconds: float) -> None:
        """A pair's second step gave its first byte, that long after it was sent."""

    def retried(self, pod: Pod, outcome: Outcome) -> None:
        """A request is sent elsewhere, since this pod failed it."""

    def visited(self, pod: Pod, outcome: Outcome, *, is_first: bool, is_answered: bool) -> None:
        """A pod is done with a request, whatever another one makes good.

        `is_first` says that it was asked first, `is_answered` that it gave a first byte.
        """

    def finished(self, request: Finished) -> None:
        """A request is over."""
