import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gate.core.asking import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, read

from tidegate.gate.core import document, faults
from tidegate.gate.exchange import Ask, Refusal, Why

SURFACES = st.sampled_from([CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS, "/tokenize"])
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    """
    model messages prompt input stream n max_tokens logprobs tools stream_options instructions
    kv_transfer_params vllm_xargs truncate_prompt_tokens
    """.split()  # noqa: SIM905 - shorter than a column of names
)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "empty"),
        (b"  ", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"{", "not JSON"),
        (b'{"a":1} {}', "not JSON"),
        (b'{"a":1,}', "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"a":"\xff"}', "UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "UTF-8"),
        (b'{"a":"\\ud800"}', "not JSON"),
        (b'{"a":NaN}', "not JSON"),
        (b'{"a":Infinity}', "not JSON"),
        (b'{"a":1e309}', "not JSON"),
        (b'{"a":01}', "not JSON"),
        (b'{"a":"\x00"}', "not JSON"),
        (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "64 levels"),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, "not JSON"),
        (b'{"a":1,"a":1}', "'a' is written twice"),
        (b'{"a":{"b":1,"c":2,"b":3}}', "'b' is written twice"),
        (b'{"a":1,"\\u0061":2}', "'a' is written twice"),
        (b'{"a":1,"a":2,"b":"\\u003a"}', "'a' is written twice"),
        (b'{"a":[{"x":":","x":"\\u003A\\u003a"}]}', "'x' is written twice"),
    ],
)
def test_a_body_that_could_be_read_in_two_ways_is_refused_with_the_reason(body, says):
    with pytest.raises(faults.Fault) as raised:
        document.parse(body, 64)

    refusal = raised.value.refusal
    assert (refusal.status, refusal.why) == (400, Why.BAD_REQUEST)
    assert says in refusal.message


@pytest.mark.parametrize(
    "body",
    [
        b'{ "a" : "b:c" , "d" : [ {"e": "::"} ] }',
        b'{"a":"\\u003a"}',
        b'{"a:b":"\\u003A:", "c":1}',
        b'{"a":"\\\\u003a", "b": 2}',
        b'{"a":' + b"[" * 63 + b"]" * 63 + b"}",
        '{"ä":"\\u00e4 : 日本"}'.encode(),
    ],
)
def test_a_body_that_is_read_in_one_way_is_taken(body):
    assert document.parse(body, 64) == json.loads(body)


def test_a_text_may_hold_any_number_of_brackets():
    text = '{"a": ["\\\\", {}, 1, 2, 3]}\n' * 150_000

    assert document.parse(orjson.dumps({"a": text}), 64) == {"a": text}


@pytest.mark.parametrize("item", [b"{}", b"[]", b'{"a":"\\"["}'])
def test_a_body_of_very_many_parts_is_refused_before_it_is_decoded(item):
    within = b'{"a":[' + b",".join([item] * (document.MOST_CONTAINERS - 2)) + b"]}"
    beyond = b'{"a":[' + b",".join([item] * document.MOST_CONTAINERS) + b"]}"

    assert document.parse(within, 64)
    with pytest.raises(faults.Fault, match="objects and lists"):
        document.parse(beyond, 64)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{" + b",".join(b'"%d":1' % n for n in range(document.MOST_KEYS + 1)) + b"}", "keys"),
        (b'{"a":[' + b"1," * document.MOST_VALUES + b"1,1]}", "values"),
    ],
)
def test_keys_and_values_are_bounded_too(body, says):
    with pytest.raises(faults.Fault, match=says):
        document.parse(body, 64)


def test_a_repeated_key_of_a_large_body_is_refused_without_its_name():
    body = b'{"a":1,"a": 2,"text":"' + b"x" * 100_000 + b'"}'

    with pytest.raises(faults.Fault, match="written twice"):
        document.parse(body, 64)


def test_many_shallow_brackets_are_not_depth():
    body = orjson.dumps({"a": [{"b": []}] * 500})

    assert document.parse(body, 4)["a"][7] == {"b": []}


@given(written=st.dictionaries(TEXT, JSON, max_size=6), comma=st.sampled_from([",", " , "]))
def test_a_document_without_repetition_is_read_as_it_was_written(written, comma):
    body = json.dumps(written, separators=(comma, ": ")).encode()

    assert document.parse(body, 64) == orjson.loads(body)


@given(
    members=st.dictionaries(TEXT, JSON, min_size=1, max_size=5),
    value=JSON,
    where=st.data(),
    depth=st.integers(0, 3),
)
def test_a_key_that_is_written_twice_is_always_found(members, value, where, depth):
    key = where.draw(st.sampled_from(sorted(members)))
    pairs = [*members.items(), (key, value)]
    text = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(item)}" for name, item in pairs) + "}"
    for _ in range(depth):
        text = f'{{"outer":[{text}]}}'

    with pytest.raises(faults.Fault, match="written twice"):
        document.parse(text.encode(), 64)


@given(body=st.binary(max_size=200), path=SURFACES)
def test_no_bytes_do_more_than_to_be_refused(body, path):
    assert isinstance(read(body, path), Ask | Refusal)


@given(members=st.dictionaries(FIELDS | TEXT, JSON, max_size=6), path=SURFACES)
def test_no_document_does_more_than_to_be_refused(members, path):
    result = read({"model": "tiny"} | members, path)

    assert isinstance(result, Ask) or 400 <= result.status < 500


@given(message=st.dictionaries(st.sampled_from(["role", "content", "tool_calls"]) | TEXT, JSON))
def test_no_message_does_more_than_to_be_refused(message):
    assert isinstance(read({"messages": [message]}), Ask | Refusal)
    assert isinstance(read({"input": [message]}, RESPONSES), Ask | Refusal)
