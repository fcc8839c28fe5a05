import json
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gate.core.asking import CHAT, COMPLETIONS, RESPONSES, asked, chat, completion
from tests.unit.gate.core.test_document import JSON, TEXT

POISON = {"do_remote_prefill": True, "remote_host": "10.0.0.1", "remote_block_ids": [[1]]}
SPELLINGS = st.sampled_from(
    [
        "kv_transfer_params",
        "KV_TRANSFER_PARAMS",
        "kvTransferParams",
        "kv-transfer-params",
        "kv_transfer_params ",
        "kv__transfer__params",
        "\uff4b\uff56_transfer_params",
        "kv\u200b_transfer_params",
        "ec_transfer_params",
        "data_parallel_rank",
        "dataParallelRank",
    ]
)
CARRIERS = st.sampled_from(["vllm_xargs", "extra_body", "nvext", "extra_args", "extraBody", "x"])
FORBIDDEN = ("kvtransferparams", "ectransferparams", "dataparallelrank")


def names(value):
    if isinstance(value, dict):
        for key, item in value.items():
            yield "".join(filter(str.isalnum, unicodedata.normalize("NFKC", key).casefold()))
            yield from names(item)
    elif isinstance(value, list):
        for item in value:
            yield from names(item)


def escaped(text):
    """Spell every character as an escape of JSON."""
    return '"' + "".join(f"\\u{ord(character):04x}" for character in text) + '"'


@given(
    spelling=SPELLINGS,
    nesting=st.lists(CARRIERS | st.just("[]"), max_size=4),
    hides=st.booleans(),
    beside=st.dictionaries(TEXT.map(lambda text: "z" + text), JSON, max_size=3),
)
def test_transfer_parameters_never_reach_an_engine(spelling, nesting, hides, beside):
    name = escaped(spelling) if hides else json.dumps(spelling)
    text = f"{name}:{json.dumps(POISON)}"
    for outer in nesting:
        text = f'"inner":[{{{text}}}]' if outer == "[]" else f"{json.dumps(outer)}:{{{text}}}"
    body = json.dumps(chat(**beside))[:-1] + f",{text}}}"

    cleaned = orjson.loads(asked(body.encode()).body)

    assert not set(FORBIDDEN) & set(names(cleaned))
    assert cleaned["messages"] == chat()["messages"]


@pytest.mark.parametrize(
    ("document", "path"),
    [(chat(), CHAT), (completion(), COMPLETIONS), ({"input": "Hi"}, RESPONSES)],
)
@pytest.mark.parametrize(
    "field",
    [
        {"priority": -99999999999},
        {"PRIORITY": 3},
        {"request_id": "another's"},
        {"data_parallel_rank": 1},
        {"kv_transfer_params": None},
        {"vllm_xargs": {"kv_transfer_params": "x"}},
        {"vllm_xargs": '{"kv_transfer_params": {}}'},
        {"nvext": {"priority": 1}},
        {"stream_options": {"kv_transfer_params": {}}},
        {"temperature": [{"kv_transfer_params": 1}]},
        {"extra_body": {"nvext": {"kv_transfer_params": {}}}},
    ],
)
def test_what_is_the_gates_to_say_is_dropped_and_the_rest_stays(document, path, field):
    cleaned = orjson.loads(asked(document | field, path).body)

    kept = {key: value for key, value in cleaned.items() if key in document}
    assert kept == document
    assert not json.dumps(cleaned).count("another") + json.dumps(cleaned).count("priority")
    assert not set(FORBIDDEN) & set(names(cleaned))


def test_other_arguments_of_extensions_stay():
    document = chat(vllm_xargs={"kv_transfer_params": "x", "ngram_size": 3}, plugin={"priority": 1})

    cleaned = orjson.loads(asked(document).body)

    assert cleaned["vllm_xargs"] == {"ngram_size": 3}
    assert cleaned["plugin"] == {"priority": 1}


def test_a_tool_may_have_parameters_of_any_name():
    properties = {"kv_transfer_params": {"type": "object"}, "priority": {"type": "integer"}}
    tool = {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {"type": "object", "properties": properties},
        },
    }
    call = {"role": "assistant", "tool_calls": [{"function": {"arguments": '{"priority": 1}'}}]}
    body = json.dumps(chat(tools=[tool]) | {"messages": [call]}).encode()

    assert asked(body).body == body


@pytest.mark.parametrize(
    "body",
    [
        b'{ "model" : "tiny",\n "messages":[{"role":"user","content":"\\u00e9 \\/"}], "top_p":1.0}',
        b'{"messages":[{"role":"user","content":"a"}],"seed":1e2,"cache_salt":"mine","other":[1,{}]}',
    ],
)
def test_a_body_with_nothing_to_change_goes_on_byte_for_byte(body):
    assert asked(body).body == body


@given(beside=st.dictionaries(TEXT.map(lambda text: "z" + text), JSON, max_size=4))
def test_what_the_gate_does_not_know_survives_a_change(beside):
    document = chat(**beside, priority=1)
    body = json.dumps(document).encode()

    cleaned = orjson.loads(asked(body).body)

    expected = orjson.loads(body)
    del expected["priority"]
    for key in [key for key in expected if set(FORBIDDEN) & set(names({key: expected[key]}))]:
        del expected[key], cleaned[key]
    assert cleaned == expected


@pytest.mark.parametrize(
    ("options", "wants", "sent"),
    [
        ({}, False, {"include_usage": True}),
        ({"stream_options": None}, False, {"include_usage": True}),
        ({"stream_options": {}}, False, {"include_usage": True}),
        ({"stream_options": {"include_usage": False}}, False, {"include_usage": True}),
        (
            {"stream_options": {"continuous_usage_stats": True, "other": 1}},
            False,
            {"include_usage": True, "other": 1},
        ),
        ({"stream_options": {"include_usage": True}}, True, {"include_usage": True}),
        (
            {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
            True,
            {"include_usage": True, "continuous_usage_stats": True},
        ),
    ],
)
@pytest.mark.parametrize(("document", "path"), [(chat, CHAT), (completion, COMPLETIONS)])
def test_a_stream_tells_its_usage_whether_or_not_the_client_asked(
    document, path, options, wants, sent
):
    ask = asked(document(stream=True, **options), path)

    assert ask.wants_usage is wants
    assert orjson.loads(ask.body) == document(stream=True, stream_options=sent)


def test_asking_for_the_usage_leaves_every_other_byte_as_it_was():
    body = (
        b'{"messages": [{"role":"user","content":"\\u00e9"}],\n "stream" : true, "top_p":1.0 }\r\n '
    )

    sent = asked(body).body

    assert sent == body.rstrip()[:-1] + b',"stream_options":{"include_usage":true}}'
    assert orjson.loads(sent)["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_an_answer_in_one_piece_tells_its_usage_anyway(path):
    document = (chat if path == CHAT else completion)()

    ask = asked(document, path)

    assert ask.wants_usage
    assert "stream_options" not in orjson.loads(ask.body)


def test_a_stream_of_responses_tells_its_usage_anyway():
    body = b'{"input":"Hello","stream":true}'

    ask = asked(body, RESPONSES)

    assert (ask.streams, ask.wants_usage, ask.body) == (True, True, body)
