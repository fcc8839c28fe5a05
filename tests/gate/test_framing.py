"""Heads and bodies, byte by byte: whatever comes, in whatever pieces."""

import contextlib
import itertools
import json

from hypothesis import given
from hypothesis import strategies as st
from tests.gate.engine import chunk

from tidegate.gate.exchange import Usage
from tidegate.gate.wire import events, heads, pair
from tidegate.gate.wire.framing import TERMINATOR, BadFraming, Chunked, framing
from tidegate.gate.wire.heads import CHUNKED, UNTIL_CLOSE, BadHead

payloads = st.lists(st.binary(min_size=1, max_size=200), max_size=8)


def pieces(raw: bytes, cuts: list[int]) -> list[bytes]:
    bounds = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    return [raw[a:b] for a, b in itertools.pairwise(bounds)]


@given(payloads, st.lists(st.integers(0, 5000), max_size=20), st.binary(max_size=30))
def test_chunks_come_out_whole_however_they_are_torn(
    bodies: list[bytes], cuts: list[int], beyond: bytes
) -> None:
    raw = b"".join(map(chunk, bodies)) + TERMINATOR + beyond
    body = Chunked()
    passed, payload, rest = b"", b"", b""
    for piece in pieces(raw, cuts):
        if body.ended:
            rest += piece
            continue
        given = body.feed(piece)
        passed += given
        payload += b"".join(given[a:b] for a, b in body.spans)
    assert body.ended
    assert payload == b"".join(bodies)
    assert passed == b"".join(map(chunk, bodies))
    assert body.rest + rest == beyond


@given(st.integers(66_000, 200_000), st.lists(st.integers(0, 200_000), max_size=10))
def test_a_long_chunk_is_passed_on_in_parts_and_whole(size: int, cuts: list[int]) -> None:
    raw = chunk(b"x" * size) + chunk(b"end") + TERMINATOR
    body = Chunked()
    passed, payload = b"", b""
    for piece in pieces(raw, cuts):
        given = body.feed(piece)
        passed += given
        payload += b"".join(given[a:b] for a, b in body.spans)
    assert (body.ended, body.is_between) == (True, True)
    assert payload == b"x" * size + b"end"
    assert passed + TERMINATOR == raw


@given(st.lists(st.binary(max_size=100), max_size=5), st.sampled_from([CHUNKED, UNTIL_CLOSE, 7]))
def test_any_bytes_are_a_body_or_refused(parts: list[bytes], length: int) -> None:
    body = framing(length)
    with contextlib.suppress(BadFraming):
        for part in parts:
            if body.ended:
                break
            given = body.feed(part)
            assert all(0 <= a <= b <= len(given) for a, b in body.spans)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_a_head_or_refused(said: bytes, is_request: bool) -> None:
    with contextlib.suppress(BadHead):
        if is_request:
            heads.read_request(b"POST / HTTP/1.1\r\nhost: g\r\n" + said + b"\r\n\r\n", "")
        else:
            heads.read_answer(b"HTTP/1.1 200 OK\r\n" + said + b"\r\n\r\n")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["usage", "choices", "error", "type"]), json_values))
def test_any_event_is_read_without_an_error(fields: dict[str, object]) -> None:
    said = json.dumps(fields).encode()
    events.judge(b"data: " + said)
    events.usage_in(said)


@given(st.text(max_size=40), st.text(max_size=40))
def test_text_that_an_engine_quotes_is_never_taken_for_usage(one: str, two: str) -> None:
    tricky = f'"usage":{{"prompt_tokens":1}}{one}"finish_reason":"abort"{two}data: {{"error":1}}'
    said = {"choices": [{"text": tricky, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}}
    raw = json.dumps(said, ensure_ascii=False).encode()
    assert events.usage_in(raw) == Usage(9, 0)
    assert not events.is_aborted(raw)
    assert events.judge(b"data: " + raw) == (events.Kind.PLAIN, Usage(9, 0))


@given(st.dictionaries(st.text(max_size=10), json_values, max_size=6), json_values)
def test_the_decode_engine_gets_the_clients_body_and_the_parameters_word_for_word(
    body: dict[str, object], value: object
) -> None:
    body.pop("kv_transfer_params", None)
    transfer = {"remote_block_ids": [[1]], "anything": value}
    answer = json.dumps({"id": "x", "kv_transfer_params": transfer}).encode()
    for written in (json.dumps(body), json.dumps(body, indent=1) + "\n"):
        second = json.loads(pair.second_body(written.encode(), answer))
        assert second == {**body, "kv_transfer_params": transfer}
