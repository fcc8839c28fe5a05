import dataclasses

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gate.core.asking import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MODELS,
    RESPONSES,
    TOKENIZE,
    asked,
    chat,
    completion,
    config,
    head,
    read,
    reader,
)

from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Ask, Head, Script, Usage, Why


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS, TOKENIZE])
def test_every_surface_of_the_api_may_go_on_to_its_body(path):
    assert reader().head(head(path)) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/metrics",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1/chat/../completions",
        "/v1/ch%61t/completions",
        "/V1/chat/completions",
        "/v1/messages",
        "/inference/v1/generate",
        "/sleep",
        "/collective_rpc",
        "/v1/models/",
        "/v1/load_lora_adapter",
    ],
)
def test_other_paths_are_not_served_however_an_engine_would_read_them(path):
    refusal = reader().head(head(path))

    assert (refusal.status, refusal.why) == (404, Why.NOT_FOUND)
    assert CHAT in refusal.message
    assert reader().read(head(path), b"{}", "id") == refusal


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("GET", CHAT, "POST"), ("DELETE", TOKENIZE, "POST"), ("POST", MODELS, "GET")],
)
def test_a_wrong_method_is_told_the_right_one(method, path, allow):
    refusal = reader().head(head(path, method=method))

    assert (refusal.status, refusal.why, refusal.allow) == (405, Why.METHOD, allow)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", [MODELS, "/v1/models/tiny", "/v1/models/org/name"])
def test_models_are_listed_without_a_body(method, path):
    asks = head(path, method=method)

    assert reader().head(asks) is None
    assert isinstance(reader().read(asks, b"", "id"), Ask)


def test_nothing_is_served_before_there_is_a_configuration():
    unconfigured = Reader(None, Keys())

    for refusal in (unconfigured.head(head()), unconfigured.read(head(), b"{}", "id")):
        assert (refusal.status, refusal.why) == (503, Why.NO_CONFIGURATION)
        assert refusal.retry_after_seconds


def test_a_new_configuration_holds_at_once():
    changing = reader()
    assert read(chat(n=4), of=changing).samples == 4

    changing.configure(config(limits={"choices": 3}))

    assert read(chat(n=4), of=changing).param == "n"


@pytest.mark.parametrize("name", ["tiny", "tiny-alias", None])
def test_a_model_is_known_by_its_names_and_may_be_left_out(name):
    assert asked(chat(model=name)).model == (name or "tiny")


@pytest.mark.parametrize(
    ("name", "status"), [("Tiny", 404), ("", 404), ("gpt-4", 404), (3, 400), (["tiny"], 400)]
)
def test_another_model_is_refused_with_the_names_that_are_served(name, status):
    refusal = read(chat(model=name))

    assert (refusal.status, refusal.param) == (status, "model")


def test_a_strangers_text_is_shown_escaped_and_cut():
    refusal = read(chat(model="\x1b[31m\n" + "é" * 5000))

    assert refusal.message.isascii()
    assert refusal.message.isprintable()
    assert len(refusal.message) < 1000


def test_a_body_over_the_limit_is_too_large():
    refusal = read(b" " * 2000, of=reader(limits={"body_bytes": 1024}))

    assert (refusal.status, refusal.why) == (413, Why.TOO_LARGE)


def test_a_compressed_body_is_asked_for_plain():
    refusal = reader().head(head(headers={"content-encoding": "gzip"}))

    assert refusal.status == 415


# What the prompt is


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({}, CHAT),
        ({"messages": []}, CHAT),
        ({"messages": "Hi"}, CHAT),
        ({"messages": ["Hi"]}, CHAT),
        ({}, COMPLETIONS),
        ({"prompt": None}, COMPLETIONS),
        ({"prompt": []}, COMPLETIONS),
        ({"prompt": 3}, COMPLETIONS),
        ({"prompt": [1.5]}, COMPLETIONS),
        ({"prompt": [[1], {}]}, COMPLETIONS),
        ({"prompt": "Hi", "prompt_embeds": "AAAA"}, COMPLETIONS),
        ({}, RESPONSES),
        ({"input": ""}, RESPONSES),
        ({"input": ["Hi"]}, RESPONSES),
        ({"input": "Hi", "background": True}, RESPONSES),
        ({"input": "Hi", "previous_response_id": "resp_1"}, RESPONSES),
        ({"input": []}, EMBEDDINGS),
        ({"prompt": "Hi", "use_beam_search": True}, COMPLETIONS),
    ],
)
def test_what_cannot_be_counted_is_refused_with_the_field(document, path):
    refusal = read(document, path)

    assert (refusal.status, refusal.why) == (400, Why.BAD_REQUEST)
    assert refusal.param in refusal.message


@pytest.mark.parametrize(
    ("document", "path", "tokens", "samples"),
    [
        ({"prompt": [5] * 100}, COMPLETIONS, 100, 1),
        ({"prompt": [[5] * 100, [6] * 20, []]}, COMPLETIONS, 120, 3),
        ({"prompt": [[5] * 100, [6] * 20], "n": 3}, COMPLETIONS, 120, 6),
        ({"prompt": [5] * 100, "n": 2, "best_of": 5}, COMPLETIONS, 100, 5),
        ({"prompt": [5] * 100, "truncate_prompt_tokens": 30}, COMPLETIONS, 30, 1),
        ({"prompt": [5] * 100, "truncate_prompt_tokens": -1}, COMPLETIONS, 100, 1),
        ({"input": [5] * 100}, EMBEDDINGS, 100, 1),
        ({"input": [[5] * 10] * 1000}, EMBEDDINGS, 10_000, 1000),
    ],
)
def test_token_ids_are_counted_exactly(document, path, tokens, samples):
    ask = asked(document, path, reader(max_model_len=2**20))

    assert (ask.prompt_tokens, ask.samples, ask.characters) == (tokens, samples, 0)


def test_a_text_is_counted_with_all_that_templates_write():
    short = asked(chat())
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "x" * 400}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    with_call = asked(chat(messages=[*chat()["messages"], message]))
    with_tools = asked(chat(tools=[{"type": "function", "function": {"description": "y" * 400}}]))
    bare = asked(chat(messages=[{"role": "assistant", "tool_calls": [call]}]))
    parts = [{"type": "text", "text": "z" * 400}, "w" * 400]
    with_parts = asked(chat(messages=[{"role": "user", "content": parts}]))

    assert (short.characters, short.messages) == (5, 1)
    assert (with_call.characters, with_call.messages) == (406, 2)
    assert (bare.characters, bare.messages) == (401, 1)
    assert with_tools.characters > 400
    assert (with_parts.characters, with_parts.images) == (800, 0)
    assert with_parts.prompt_tokens > with_call.prompt_tokens > short.prompt_tokens


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}},
        {"type": "input_audio", "input_audio": {"data": "A" * 9000}},
        {"type": "input_image", "image_url": "https://example.org/i.png"},
        {"type": "something_new"},
    ],
)
def test_what_a_model_sees_or_hears_counts_as_an_image_whatever_its_bytes(part):
    big = reader(max_model_len=32768)
    ask = asked(chat(messages=[{"role": "user", "content": [part, part]}]), of=big)

    assert (ask.images, ask.characters) == (2, 0)
    assert 512 <= ask.prompt_tokens <= 4096


def test_responses_count_instructions_input_and_the_outputs_of_tools():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "a" * 100}]},
        {"type": "function_call_output", "call_id": "c", "output": "b" * 100},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "c" * 100}]},
    ]

    ask = asked({"input": items, "instructions": "d" * 100}, RESPONSES)

    assert (ask.characters, ask.messages) == (400, 4)


@pytest.mark.parametrize("nest", [lambda messages: messages, lambda messages: [messages] * 2])
def test_conversations_can_be_embedded(nest):
    ask = asked({"input": nest(chat()["messages"])}, EMBEDDINGS)

    assert ask.messages == ask.samples
    assert ask.characters == 5 * ask.messages


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (completion(prompt="x" * 900, messages=chat()["messages"]), COMPLETIONS),
        ({"input": "x" * 900, "messages": chat()["messages"]}, EMBEDDINGS),
        (chat(documents=[{"title": "t", "text": "x" * 900}]), CHAT),
        ({"input": "Hi", "previous_input_messages": [{"content": "x" * 900}]}, RESPONSES),
    ],
)
def test_nothing_that_an_engine_may_read_goes_uncounted(document, path):
    assert asked(document, path).characters >= 900


def test_tokenizing_takes_no_kv_cache():
    ask = asked({"prompt": "x" * 100_000}, TOKENIZE)

    assert (ask.prompt_tokens, ask.output_limit, ask.characters) == (0, 0, 0)


@pytest.mark.parametrize(
    ("document", "path", "is_scored"),
    [
        (completion(), COMPLETIONS, False),
        (completion(logprobs=2), COMPLETIONS, False),
        (completion(echo=True), COMPLETIONS, False),
        (completion(echo=True, logprobs=0), COMPLETIONS, True),
        (completion(echo=False, logprobs=2), COMPLETIONS, False),
        (completion(prompt_logprobs=0), COMPLETIONS, True),
        (completion(prompt_logprobs=None), COMPLETIONS, False),
        (chat(logprobs=True, top_logprobs=2), CHAT, False),
        (chat(echo=True), CHAT, True),
        (chat(prompt_logprobs=2), CHAT, True),
    ],
)
def test_it_is_known_whether_the_prompt_is_to_be_scored(document, path, is_scored):
    assert asked(document, path).scores_prompt is is_scored


# How long the answer may be


@pytest.mark.parametrize(
    ("document", "path", "limit"),
    [
        ({"prompt": [5] * 24}, COMPLETIONS, 16),  # as the OpenAI API has it
        ({"prompt": [5] * 24, "max_tokens": None}, COMPLETIONS, 1000),
        ({"prompt": [5] * 24, "max_tokens": 0}, COMPLETIONS, 1),
        ({"prompt": [5] * 24, "max_tokens": 7.0}, COMPLETIONS, 7),
        ({"prompt": [5] * 24, "max_tokens": 1000}, COMPLETIONS, 1000),
        (chat(max_tokens=7), CHAT, 7),
        (chat(max_completion_tokens=9), CHAT, 9),
        (chat(max_tokens=7, max_completion_tokens=9), CHAT, 9),
        ({"input": "Hello", "max_output_tokens": 5}, RESPONSES, 5),
        ({"input": "Hello", "max_tokens": 5}, EMBEDDINGS, 0),
    ],
)
def test_an_answer_is_as_long_as_was_asked_or_as_the_model_leaves(document, path, limit):
    assert asked(document, path).output_limit == limit


def test_a_chat_without_a_limit_may_fill_the_model():
    ask = asked(chat())

    assert ask.output_limit == 1024 - ask.prompt_tokens


@pytest.mark.parametrize(
    ("document", "path", "param", "numbers"),
    [
        (
            {"prompt": [5] * 24, "max_tokens": 1001},
            COMPLETIONS,
            "max_tokens",
            ["24", "1024", "1000"],
        ),
        (chat(max_tokens=99999), CHAT, "max_tokens", ["99999", "1024"]),
        (chat(max_completion_tokens=9999), CHAT, "max_completion_tokens", ["9999", "1024"]),
        ({"input": "Hi", "max_output_tokens": 1025}, RESPONSES, "max_output_tokens", ["1025"]),
        ({"prompt": [5] * 1024}, COMPLETIONS, None, ["1024"]),
        ({"prompt": "word " * 10_000}, COMPLETIONS, None, ["1024"]),
        ({"input": [5] * 1025}, EMBEDDINGS, None, ["1025", "1024"]),
    ],
)
def test_what_can_never_fit_is_refused_with_the_numbers(document, path, param, numbers):
    refusal = read(document, path)

    assert (refusal.status, refusal.why, refusal.param) == (400, Why.TOO_LONG, param)
    assert all(number in refusal.message for number in numbers)


IDS = [5] * 600
TEXT = "word " * 600

SEVERAL = {
    "embeddings of ids": ({"input": [IDS] * 100}, EMBEDDINGS, 0),
    "embeddings of texts": ({"input": [TEXT] * 100}, EMBEDDINGS, 0),
    "conversations": ({"input": [[{"role": "user", "content": TEXT}]] * 100}, EMBEDDINGS, 0),
    "completions": ({"prompt": [IDS] * 20}, COMPLETIONS, 16),
    "with a limit": ({"prompt": [IDS] * 4, "max_tokens": 424}, COMPLETIONS, 424),
    "of ids and texts": ({"prompt": [IDS, TEXT, [5]], "max_tokens": 200}, COMPLETIONS, 200),
}


@pytest.mark.parametrize(("document", "path", "limit"), SEVERAL.values(), ids=SEVERAL)
def test_each_of_several_prompts_has_the_models_whole_length(document, path, limit):
    ask = asked(document, path)

    assert ask.output_limit == limit
    assert ask.prompt_tokens > 1024, "all of them are reserved"
    assert ask.fewest_tokens <= 600


def test_without_a_limit_an_answer_may_have_what_the_shortest_prompt_leaves():
    ask = asked({"prompt": [IDS, [5] * 24], "max_tokens": None}, COMPLETIONS)

    assert ask.output_limit == 1000


@pytest.mark.parametrize(
    ("document", "path", "said"),
    [
        ({"input": [[5], [5] * 1025]}, EMBEDDINGS, "The longest prompt has 1025 tokens"),
        ({"prompt": [[5], [5] * 1024]}, COMPLETIONS, "The longest prompt has 1024 tokens"),
        ({"prompt": [[5] * 1024]}, COMPLETIONS, "The prompt has 1024 tokens"),
        (
            {"prompt": [[5], IDS], "max_tokens": 425},
            COMPLETIONS,
            "max_tokens is 425 and the longest prompt has 600 tokens",
        ),
    ],
)
def test_of_several_prompts_the_longest_must_fit(document, path, said):
    refusal = read(document, path)

    assert (refusal.status, refusal.why) == (400, Why.TOO_LONG)
    assert said in refusal.message


@given(st.lists(st.integers(1, 1024), min_size=1, max_size=64), st.integers(1, 1024))
def test_several_prompts_fit_together_if_and_only_if_each_fits_alone(lengths, limit):
    def reads(prompt):
        return isinstance(read({"prompt": prompt, "max_tokens": limit}, COMPLETIONS), Ask)

    prompts = [[5] * length for length in lengths]

    assert reads(prompts) == all(map(reads, prompts))


def test_each_of_several_prompts_is_cut_by_itself():
    document = {"prompt": [[5] * 100, [5] * 20, "word " * 500], "truncate_prompt_tokens": 30}

    assert asked(document, COMPLETIONS).prompt_tokens == 30 + 20 + 30


def test_what_a_model_sees_counts_beside_token_ids_too():
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    alone = asked({"input": [image]}, EMBEDDINGS, reader(max_model_len=8192))

    both = asked({"input": [[5] * 100, [image]]}, EMBEDDINGS, reader(max_model_len=8192))

    assert both.prompt_tokens == 100 + alone.prompt_tokens


def test_an_estimate_is_trusted_by_half():
    exact = asked({"prompt": IDS}, COMPLETIONS)
    estimated = asked({"prompt": TEXT}, COMPLETIONS)

    assert exact.fewest_tokens == exact.prompt_tokens
    assert estimated.fewest_tokens == estimated.prompt_tokens // 2


def test_a_text_near_the_limit_is_left_to_the_engine_that_counts_exactly():
    ask = asked({"prompt": "word " * 1000, "max_tokens": 16}, COMPLETIONS)

    assert ask.prompt_tokens > 1024
    assert ask.output_limit == 1


def test_images_near_the_limit_are_left_to_the_engine_too():
    image = {"type": "image_url", "image_url": {"url": "https://example.org/i.png"}}

    ask = asked(chat(messages=[{"role": "user", "content": [image]}]))

    assert ask.prompt_tokens > 1024
    assert ask.output_limit == 1


@pytest.mark.parametrize(
    ("document", "path", "least"),
    [
        ({"prompt": IDS, "max_tokens": 40}, COMPLETIONS, 0),
        ({"prompt": IDS, "max_tokens": 40, "min_tokens": 30}, COMPLETIONS, 30),
        ({"prompt": IDS, "max_tokens": 40, "min_tokens": None}, COMPLETIONS, 0),
        ({"prompt": IDS, "min_tokens": 30}, COMPLETIONS, 16),  # beyond the default: engines refuse
        ({"prompt": IDS, "max_tokens": 40, "ignore_eos": True}, COMPLETIONS, 40),
        ({"prompt": IDS, "max_tokens": 40, "ignore_eos": False}, COMPLETIONS, 0),
        ({"prompt": IDS, "max_tokens": 40, "ignore_eos": True, "stop": ["."]}, COMPLETIONS, 0),
        (
            {"prompt": IDS, "ignore_eos": True, "stop_token_ids": [7], "min_tokens": 9}
            | {"max_tokens": 40},
            COMPLETIONS,
            9,
        ),
        (chat(max_completion_tokens=40, min_tokens=30), CHAT, 30),
        (chat(max_completion_tokens=40, ignore_eos=True), CHAT, 40),
        ({"input": "Hello", "max_output_tokens": 40, "ignore_eos": True}, RESPONSES, 40),
        ({"input": "Hello", "ignore_eos": True}, EMBEDDINGS, 0),
    ],
)
def test_an_answer_that_may_not_end_early_is_known_by_its_least_length(document, path, least):
    assert asked(document, path).least_expected == least


# Fields that are read strictly


@pytest.mark.parametrize("field", ["n", "max_tokens", "best_of", "prompt_logprobs", "min_tokens"])
@pytest.mark.parametrize("value", ["3", 2.5, [1], {}, 10**19, 1e300, -7])
def test_a_number_that_could_be_read_in_two_ways_is_refused(field, value):
    refusal = read(completion(**{field: value}), COMPLETIONS)

    assert (refusal.status, refusal.param) == (400, field)


@pytest.mark.parametrize("field", ["n", "max_tokens", "best_of", "min_tokens"])
def test_a_flag_is_no_number(field):
    assert read(completion(**{field: True}), COMPLETIONS).param == field


@pytest.mark.parametrize("field", ["stream", "ignore_eos"])
@pytest.mark.parametrize("value", ["true", 1, 0, "", []])
def test_a_flag_that_could_be_read_in_two_ways_is_refused(field, value):
    assert read(chat(**{field: value})).param == field


@pytest.mark.parametrize(
    ("document", "path"),
    [({"input": "Hi"}, EMBEDDINGS), ({"prompt": "Hi"}, TOKENIZE), ({"input": "Hi"}, RESPONSES)],
)
def test_fields_that_a_surface_does_not_know_change_nothing(document, path):
    ask = asked(document | {"n": 4, "min_tokens": 9, "stream": path != RESPONSES}, path)

    assert (ask.samples, ask.streams, ask.wants_usage) == (1, False, True)
    assert ask.least_expected == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 17}, "n"),
        ({"n": 0}, "n"),
        ({"best_of": 17}, "best_of"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt": ["a"] * 65}, "prompt"),
        ({"stream_options": 3, "stream": True}, "stream_options"),
        ({"stream_options": {"include_usage": "yes"}, "stream": True}, "include_usage"),
    ],
)
def test_more_than_the_limits_is_refused_with_the_limit(fields, param):
    refusal = read(completion(**fields), COMPLETIONS)

    assert (refusal.status, refusal.param) == (400, param)


def test_what_is_within_the_limits_passes():
    fields = {"n": 16, "best_of": 16, "logprobs": 20, "prompt_logprobs": 20, "prompt": ["a"] * 64}

    assert asked(completion(**fields), COMPLETIONS).samples == 16 * 64
    assert asked(chat(logprobs=True, top_logprobs=20)).samples == 1


# What else an ask tells


def test_engines_get_the_headers_of_a_list_and_no_others():
    headers = {
        "host": "tiny.chat",
        "authorization": "Bearer sk-secret",
        "x-vllm-priority": "-9",
        "x-data-parallel-rank": "1",
        "x-prefiller-host-port": "10.0.0.1:1",
        "x-tidegate-priority": "1",
        "connection": "keep-alive, x-request-id",
        "accept-encoding": "gzip",
        "content-type": "application/x-www-form-urlencoded",
        "traceparent": "00-1-2-01",
        "accept": "*/*",
        "x-session-id": "s",
    }

    sent = dict(asked(chat(), headers=headers).headers)

    assert sent == {
        b"content-type": b"application/json",
        b"x-request-id": b"id-1",
        b"traceparent": b"00-1-2-01",
        b"accept": b"*/*",
        b"x-session-id": b"s",
    }


@pytest.mark.parametrize("name", ["authorization", "x-tidegate-priority", "x-tidegate-shifted"])
def test_a_header_that_the_gate_heeds_may_come_once(name):
    asks = head()
    twice = dataclasses.replace(asks, headers=[(name.encode(), b"1"), (name.encode(), b"2")])

    for refusal in (reader().head(twice), reader().read(twice, orjson.dumps(chat()), "id")):
        assert refusal.status == 400
        assert name in refusal.message


def test_a_shifted_request_is_known_and_not_taken_back():
    other = {"x-tidegate-shifted": "chat/big"}
    own = {"x-tidegate-shifted": "chat/big, chat/tiny"}

    assert asked(chat(), headers=other).shifted
    assert not asked(chat()).shifted
    refusal = read(chat(), headers=own)
    assert (refusal.status, refusal.why) == (508, Why.SHIFT_LOOP)
    assert reader().head(head(headers=own)) == refusal


def test_equal_requests_are_told_apart():
    one = reader()

    assert asked(chat(), of=one).serial != asked(chat(), of=one).serial


def test_equal_beginnings_have_equal_prefixes():
    system = {"role": "system", "content": "You answer briefly. " * 60}
    first = asked(chat(messages=[system, {"role": "user", "content": "One"}]))
    second = asked(chat(messages=[system, {"role": "user", "content": "Two"}]))
    other = asked(chat(messages=[{"role": "system", "content": "Be long. " * 130}]))
    salted = asked(chat(messages=[system], cache_salt="mine"))

    assert first.prefix == second.prefix != b""
    assert len({first.prefix, other.prefix, salted.prefix}) == 3


@pytest.mark.parametrize("field", ["cache_salt", "prompt_cache_key"])
def test_what_is_kept_apart_has_another_prefix(field):
    message = [{"role": "user", "content": "You answer briefly. " * 60}]
    mine, yours = (asked(chat(messages=message, **{field: who})) for who in ("me", "you"))

    assert mine.prefix != yours.prefix


def test_a_session_may_stand_in_the_body():
    spelled = asked(chat(session_id="abc"))

    assert spelled.prefix == asked(chat(), headers={"x-session-id": "abc"}).prefix != b""


@given(
    headers=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    b"authorization",
                    b"x-tidegate-priority",
                    b"x-tidegate-tenant",
                    b"x-tidegate-shifted",
                    b"x-session-id",
                    b"x-request-id",
                    b"content-encoding",
                    b"accept",
                ]
            ),
            st.binary(max_size=40),
        ),
        max_size=6,
    ),
    peer=st.sampled_from(["10.0.0.1", "::1", "", "nonsense", "fe80::1%eth0"]),
)
def test_no_headers_do_more_than_to_be_refused(headers, peer):
    of = reader(tenants={"trusted_peers": ["10.0.0.0/8"]})
    asks = Head("POST", CHAT, "", headers, peer)

    refusal = of.head(asks)
    read_ = of.read(asks, orjson.dumps(chat()), "id")

    assert isinstance(read_, Ask) or read_.status in (400, 415, 508)
    assert refusal is None or refusal == read_


def test_a_session_stays_where_it_is_whatever_is_said():
    session = {"x-session-id": "abc"}

    first = asked(chat(), headers=session).prefix
    assert first == asked(completion(), COMPLETIONS, headers=session).prefix != b""
    assert first != asked(chat(), headers={"x-session-id": "abd"}).prefix


def test_token_ids_have_a_prefix_and_short_texts_have_none():
    one = asked({"prompt": [*range(256), 1]}, COMPLETIONS).prefix
    two = asked({"prompt": [*range(256), 2]}, COMPLETIONS).prefix

    assert one == two != b""
    assert asked(chat()).prefix == b""


# What is learned


def test_the_estimate_learns_from_what_engines_count():
    learning = reader(max_model_len=10**6)
    document = {"prompt": "word " * 2000, "max_tokens": 1}
    before = asked(document, COMPLETIONS, learning)
    assert learning.estimate_error() is None

    for _ in range(60):
        ask = asked(document, COMPLETIONS, learning)
        learning.learn(ask, Usage(prompt_tokens=10_000, output_tokens=1))

    after = asked(document, COMPLETIONS, learning)
    assert before.prompt_tokens == 2500
    assert after.prompt_tokens == pytest.approx(10_000, rel=0.05)
    assert learning.estimate_error() < 0.5
    assert learning.tokens_per_character(Script.LATIN) == pytest.approx(1.0, rel=0.05)
    assert learning.tokens_per_character(Script.CJK) == pytest.approx(2 / 3)


def test_what_was_cut_or_counted_exactly_teaches_nothing():
    learning = reader()
    for document, path in (
        ({"prompt": "word " * 500, "truncate_prompt_tokens": 10}, COMPLETIONS),
        ({"prompt": [5] * 100}, COMPLETIONS),
        ({"prompt": ["word " * 50, [5] * 100]}, COMPLETIONS),
        (chat(truncate_prompt_tokens=10), CHAT),
    ):
        learning.learn(asked(document, path, learning), Usage(999, 1))

    assert learning.estimate_error() is None
