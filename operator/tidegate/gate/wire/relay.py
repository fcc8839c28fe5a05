"""Passes an engine's answer on to a client, bytes as they come.

Per lump of a stream: note the time, count events, look for a few byte strings, write. Nothing is
awaited, parsed or re-encoded. A client that reads slowly stops the reading from its engine.

An answer is judged before its first byte goes to the client, since afterwards it cannot be asked
for again: a short one is kept until it is whole, a stream until its first token.
"""

import asyncio
from typing import Final

from tidegate.gate.exchange import Outcome, Surface, Usage, Why
from tidegate.gate.wire import events
from tidegate.gate.wire.answer import Answer, End, outcome_of
from tidegate.gate.wire.events import EVENT_END, Kind
from tidegate.gate.wire.framing import TERMINATOR
from tidegate.gate.wire.heads import CHUNKED, Answered, BadHead, Headers, header, with_ours
from tidegate.gate.wire.parties import Client, Progress
from tidegate.gate.wire.patience import Patience
from tidegate.gate.wire.pods import PodConnection
from tidegate.gate.wire.sweep import Sweep

KEPT_BYTES: Final = 1024 * 1024
"""An answer that is no stream is kept until it is whole, up to this length."""
TOLD_TOKENS: Final = 16
"""The ledger and the metrics learn of tokens in lumps of this many."""
CLIENT_STALL_SECONDS: Final = 60.0
"""A client that reads nothing for so long holds KV for nobody."""
_TAIL_BYTES: Final = 4096
_JSON: Final = b"application/json"
_EVENTS: Final = b"text/event-stream"
_BYTES: Final = b"application/octet-stream"
_KINDS: Final = dict.fromkeys(Surface, (_JSON, _EVENTS)) | {Surface.EMBEDDINGS: (_JSON, _BYTES)}
"""Content types of all that the gate's surfaces answer; vLLM gives embeddings as bytes, too."""
_WITH_CHOICES: Final = frozenset({Surface.COMPLETIONS, Surface.CHAT})


class Relay(Answer):
    """One answer on its way from an engine to a client.

    Args:
        client: where it goes.
        progress: who is told.
        surface: what was asked for.
        extra: headers of the gate's own.
        strips_usage: whether the client did not ask for the usage that the gate asked for.
        passes_all: whether answers of any status are the client's: those of another gate.
    """

    def __init__(
        self,
        connection: PodConnection,
        sweep: Sweep,
        loop: asyncio.AbstractEventLoop,
        has: Patience,
        *,
        client: Client,
        progress: Progress,
        surface: Surface,
        extra: Headers,
        strips_usage: bool,
        passes_all: bool = False,
    ) -> None:
        super().__init__(connection, sweep, loop, has)
        self._client = client
        self._progress = progress
        self._surface = surface
        self._extra = extra
        self._strips_usage = strips_usage
        self._passes_all = passes_all
        self._is_stream = False
        self._is_json = False
        """Whether the body is to be a JSON object; a refusal is the client's in any words."""
        self._is_dechunked = False
        self._has_response_end = False
        self._verdict: End
        self._is_for_client = False
        """Whether an answer of this status goes to the client, or calls for another try."""
        self.has_begun = False
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self._last = b""
        self._usage: Usage | None = None
        self._untold = 0
        self._told_at = 0.0
        self._behind_since: float | None = None
        self.sent_bytes = 0

    def ask(self, head: bytes, body: bytes) -> None:
        """Send the request, and listen to how fast the client reads."""
        self._client.reads = self
        super().ask(head, body)
        if self._client.is_paused:
            self.pause()

    def pause(self) -> None:
        """The client is behind: read no more from the engine."""
        self._behind_since = self._loop.time()
        self._connection.pause()

    def resume(self) -> None:
        """The client has caught up."""
        self._behind_since = None
        self._heard_at = self._loop.time()
        self._connection.resume()

    def check(self, now: float) -> None:
        """Give up when a deadline has passed; an engine is not blamed for a slow client."""
        if self._behind_since is None:
            super().check(now)
        elif now > self._has.until:
            self._give_up(Outcome.TOTAL_DEADLINE)
        elif now > self._behind_since + CLIENT_STALL_SECONDS:
            self._fail(Outcome.CLIENT_GONE, Why.STALLED, "the client read nothing")

    def cut(self, outcome: Outcome, why: Why, message: str) -> None:
        """End an answer for a reason of the gate's own."""
        self._fail(outcome, why, message)

    def _on_head(self, answered: Answered) -> None:
        kind = header(answered.headers, b"content-type").lower()
        if answered.status == 200 and kind and not kind.startswith(_KINDS[self._surface]):
            raise BadHead("its content type is none of this path's")  # a proxy's page of HTML
        self._is_stream = answered.status == 200 and kind.startswith(_EVENTS)
        self._is_dechunked = answered.length == CHUNKED and self._client.is_http10
        self._strips_usage &= answered.length < 0
        self._verdict = outcome_of(answered)
        is_served = self._verdict.outcome is Outcome.FINISHED
        self._is_json = is_served and not kind.startswith(_BYTES)
        is_answer = is_served or self._verdict.outcome is Outcome.ENGINE_REFUSED
        self._is_for_client = self._passes_all or is_answer

    def _on_first(self) -> None:
        self._told_at = self._heard_at
        if self._verdict.outcome is Outcome.FINISHED:
            self._progress.first_token(self._heard_at)

    def _on_body(self, raw: bytes) -> None:
        if self._is_stream:
            self._stream(raw)
        else:
            self._collect(raw)

    def _stream(self, raw: bytes) -> None:
        self._untold += raw.count(b"data:")
        if self._surface is Surface.RESPONSES and not self._has_response_end:
            self._has_response_end = events.ends_response(raw)
        if not events.is_plain(raw) and self._framing.is_between:
            raw = self._sift(raw)
            if not raw:
                return
        elif self._is_dechunked:
            raw = self._payload(raw)
        if self._untold >= TOLD_TOKENS:
            self._tell()
        self._last = raw
        if not self.has_begun:
            self._kept.append(raw)
            if self._opens_only(raw):
                return
            self._begin()
            return
        self.sent_bytes += len(raw)
        self._client.write(raw)

    def _opens_only(self, raw: bytes) -> bool:
        """Tell whether this is a chat's first event, which has a role and no token yet."""
        return (
            self._surface is Surface.CHAT
            and len(self._kept) == 1
            and raw.count(b"data:") == 1
            and b'"role"' in raw
        )

    def _sift(self, raw: bytes) -> bytes:
        """Read the events of a lump: take the usage out, and end the stream at a failure."""
        payload = self._payload(raw)
        *whole, rest = payload.split(EVENT_END)
        kept: list[bytes] = []
        for event in whole:
            kind, usage = events.judge(event)
            self._usage = usage or self._usage
            if kind is Kind.USAGE_ONLY and self._strips_usage:
                self._untold -= 1
                continue
            if kind in (Kind.FAILED, Kind.ABORTED):
                if kept and self.has_begun:
                    self._client.write(self._framed(EVENT_END.join((*kept, b""))))
                said = event + EVENT_END if kind is Kind.FAILED else b""
                message = "the engine failed" if said else "the engine stopped before the end"
                self._break(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, message, said)
                return b""
            kept.append(event)
        if len(kept) == len(whole):
            return payload if self._is_dechunked else raw
        return self._framed(EVENT_END.join((*kept, rest)))

    def _framed(self, payload: bytes) -> bytes:
        """Put a payload of our own into the framing that the client gets."""
        if not payload or not self.answered or self.answered.length != CHUNKED:
            return payload
        return payload if self._is_dechunked else b"%x\r\n%b\r\n" % (len(payload), payload)

    def _collect(self, raw: bytes) -> None:
        if self._is_dechunked:
            raw = self._payload(raw)
        self._last = raw if len(raw) >= _TAIL_BYTES else (self._last + raw)[-_TAIL_BYTES:]
        if self.has_begun:
            if self._is_aborted(self._last):
                self._break(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, "the engine stopped")
                return
            self.sent_bytes += len(raw)
            self._client.write(raw)
            return
        if not self._is_for_client:
            return
        self._kept.append(raw)
        self._kept_bytes += len(raw)
        if self._kept_bytes > KEPT_BYTES or not self._client.may_keep(self._kept_bytes):
            self._begin()

    def _is_aborted(self, body: bytes) -> bool:
        """Tell whether a stopping engine ended this; other surfaces may quote the client's JSON."""
        if not self._is_json:
            return False
        if self._surface is Surface.RESPONSES:
            return events.is_failed_response(body)
        return self._surface in _WITH_CHOICES and events.is_aborted(body)

    def _begin(self) -> None:
        """Send the head, and what was kept: from here on there is no other try."""
        assert self.answered is not None
        self.has_begun = True
        self._progress.begun()
        answered = self.answered
        headers = with_ours(answered.headers, self._extra)
        kept = b"".join(self._kept)
        self._kept.clear()
        self._kept_bytes = 0
        self._client.may_keep(0)
        self.sent_bytes += len(kept)
        self._client.begin(answered.status, headers, answered.length, kept)

    def _on_end(self) -> None:
        end = self._verdict
        if not self._is_for_client:
            self._finish(end, is_clean=True)
            return
        if self._is_stream:
            if not self._looks_whole():
                self._break(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, "the stream ended early")
                return
            self._tell()
        else:
            kept = b"".join(self._kept) or self._last
            if self._is_aborted(kept):
                self._break(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, "the engine stopped")
                return
            if not self._looks_like_json(kept):
                self._break(Outcome.ENGINE_FAILED, Why.ENGINE_ERROR, "its answer is no JSON object")
                return
            self._usage = events.usage_in(kept) if self._is_json else None
        if not self.has_begun:
            self._begin()
        if self.answered and self.answered.length == CHUNKED and not self._is_dechunked:
            self._client.write(TERMINATOR)
        whole = End(end.outcome, usage=self._usage, has_begun=True)
        self._finish(whole, is_clean=True)
        self._client.finish()

    def _looks_whole(self) -> bool:
        """Tell whether the stream's last event was the one that ends it."""
        if self._surface in _WITH_CHOICES:
            return events.DONE in self._last[-64:]
        return self._has_response_end or self._surface is not Surface.RESPONSES

    def _looks_like_json(self, kept: bytes) -> bool:
        """Tell whether an answer that is no stream begins and ends as an object; it is not parsed.

        Of a long one that is on its way only the end is there; in chunks neither stands alone.
        """
        if not self._is_json or self.answered is None or self.answered.length == CHUNKED:
            return True
        begins = self.has_begun or kept.lstrip()[:1] == b"{"
        return begins and kept.rstrip()[-1:] == b"}"

    def _tell(self) -> None:
        tokens, self._untold = self._untold, 0
        if tokens > 0:
            self._progress.produced(tokens, self._heard_at - self._told_at, self._heard_at)
        self._told_at = self._heard_at

    def _fail(self, outcome: Outcome, why: Why, message: str) -> None:
        if self.has_begun:
            self._break(outcome, why, message)
        else:
            super()._fail(outcome, why, message)

    def _break(self, outcome: Outcome, why: Why, message: str, event: bytes = b"") -> None:
        """End an answer that is not whole, in a way that no client takes for an end."""
        if self.is_over:
            return
        self._tell()
        if self.has_begun:
            last = b""
            if self._is_stream and (self._framing.is_between or self._is_dechunked):
                is_amid = not self._last.removesuffix(b"\r\n").endswith(EVENT_END)
                said = event or self._progress.error_event(why, message)
                last = EVENT_END + said if is_amid else said
            self._client.cut(self._framed(last))
        end = End(outcome, why, message, self._usage, has_begun=self.has_begun)
        self._finish(end, is_clean=False)

    def _finish(self, end: End, *, is_clean: bool) -> None:
        self._client.reads = None
        if self._kept_bytes:
            self._client.may_keep(0)
        super()._finish(end, is_clean=is_clean)
