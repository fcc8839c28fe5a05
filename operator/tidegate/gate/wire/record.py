"""What is kept of a request for its log line and the metrics."""

from tidegate.gate.exchange import Ask, Head, Outcome, Pod, Refusal, Seat, Usage, Why
from tidegate.gate.wire.answer import Answer, End
from tidegate.gate.wire.heads import header
from tidegate.gate.wire.observer import Finished
from tidegate.gate.wire.relay import Relay

_TRACE_CHARACTERS = 64
_OF_NO_POD = frozenset({Outcome.CLIENT_GONE, Outcome.GATE_GONE})
"""Ends that there are without a seat, too: in the queue, or while another deployment serves."""


class Record:
    """One request's figures, filled in as they become known."""

    __slots__ = (
        "ask",
        "begun_at",
        "body_bytes",
        "end",
        "head",
        "is_answered",
        "queued_seconds",
        "refused",
        "request_id",
        "revision",
        "seat",
        "sent_bytes",
        "shifted_to",
        "status",
        "ttft_seconds",
        "visited",
        "visits",
    )

    def __init__(self, request_id: str, head: Head, body_bytes: int, begun_at: float) -> None:
        self.request_id = request_id
        self.head = head
        self.body_bytes = body_bytes
        self.begun_at = begun_at
        self.ask: Ask | None = None
        self.seat: Seat | None = None
        self.end: End | None = None
        self.refused: Refusal | None = None
        self.status = 0
        self.sent_bytes = 0
        self.visits = 0
        self.visited: Pod | None = None
        self.is_answered = False
        self.revision: str | None = None
        self.shifted_to = ""
        self.queued_seconds: float | None = None
        self.ttft_seconds: float | None = None

    @property
    def usage(self) -> Usage | None:
        """What this deployment's engine counted; another's has its own gate and tokenizer."""
        return self.end.usage if self.end and not self.shifted_to else None

    @property
    def outcome(self) -> Outcome:
        """How the last visit ended, for the ledger."""
        return self.end.outcome if self.end else Outcome.CLIENT_GONE

    def begin_visit(self, pod: Pod) -> None:
        """Note that it is on its way to a pod; of a pair to the one that is to answer.

        `visited` is this pod, `is_answered` whether it has given a first byte, and `revision` that
        of all pods so far, empty where they are of several.
        """
        self.visits += 1
        self.visited, self.is_answered, self.ttft_seconds = pod, False, None
        self.revision = pod.revision if self.revision in (None, pod.revision) else ""

    def note(self, answer: Answer | None) -> None:
        """Keep what the client got of the last answer; of those before it got nothing."""
        if isinstance(answer, Relay) and answer.has_begun and answer.answered is not None:
            self.sent_bytes = answer.sent_bytes
            self.status = answer.answered.status

    def finished(self, now: float) -> Finished:
        """Make the report of it all."""
        ask, seat, end = self.ask, self.seat, self.end
        why: Why | None = end.why if end else None
        return Finished(
            request_id=self.request_id,
            surface=ask.surface.value if ask else self.head.path,
            model=ask.model if ask else "",
            tenant=ask.caller.tenant if ask else "",
            priority=ask.caller.priority if ask else None,
            status=self.status,
            why=self.refused.why if self.refused else why,
            outcome=end.outcome if end and (seat or end.outcome in _OF_NO_POD) else None,
            pod=seat.pod.name if seat else "",
            prefill=seat.prefill.name if seat and seat.prefill else "",
            revision=seat.pod.revision if seat else "",
            shifted_to=self.shifted_to,
            streamed=ask.streams if ask else False,
            visits=self.visits,
            prompt_tokens=ask.prompt_tokens if ask else 0,
            usage=self.usage,
            body_bytes=self.body_bytes,
            answer_bytes=self.sent_bytes,
            queued_seconds=self.queued_seconds,
            ttft_seconds=self.ttft_seconds,
            total_seconds=now - self.begun_at,
            traceparent=header(self.head.headers, b"traceparent").decode("latin-1")[
                :_TRACE_CHARACTERS
            ],
        )
