"""The HTTP API answers as vLLM's does: bodies, streams, errors, metrics."""

import http.client
import json
import threading
import time
from collections import defaultdict

import pytest
from e2e.double.process import Double

from .api import ask, complete, frames, metrics, value


@pytest.mark.parametrize("path", ["/health", "/ping"])
def test_a_healthy_server_says_so(double, path):
    assert ask(double.url, path) == (200, "")


def test_the_server_names_its_version_and_models(double):
    assert ask(double.url, "/version") == (200, {"version": "0.32.0"})
    status, models = ask(double.url, "/v1/models")
    assert status == 200
    assert [(card["id"], card["max_model_len"]) for card in models["data"]] == [("tiny", 2048)]


def test_a_completion_counts_its_tokens(double):
    status, body = complete(double.url, " hello" * 10, max_tokens=4)
    assert status == 200
    assert body["object"] == "text_completion"
    assert body["choices"][0]["finish_reason"] == "length"
    assert (body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]) == (10, 4)
    assert body["kv_transfer_params"] is None


def test_the_same_prompt_gives_the_same_text_and_sampling_varies_it(double):
    first, second = (complete(double.url, " hello", max_tokens=8)[1] for _ in range(2))
    assert first["choices"][0]["text"] == second["choices"][0]["text"]
    varied = complete(double.url, " hello", max_tokens=8, temperature=1, n=3)[1]
    assert len({choice["text"] for choice in varied["choices"]}) == 3


def test_several_prompts_and_choices_are_numbered(double):
    body = complete(double.url, [" hello", " world model"], max_tokens=2, n=2, temperature=1)[1]
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 8,
        "total_tokens": 11,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def test_echo_and_token_ids(double):
    echoed = complete(double.url, " hello", max_tokens=1, echo=True)[1]["choices"][0]
    assert echoed["text"].startswith(" hello")
    ids = ask(double.url, "/tokenize", {"model": "tiny", "prompt": " hello"})[1]["tokens"]
    by_ids = complete(double.url, ids, max_tokens=3, return_token_ids=True)[1]["choices"][0]
    assert by_ids["prompt_token_ids"] == ids
    assert len(by_ids["token_ids"]) == 3


def test_a_stream_ends_with_usage_and_done(double):
    chunks = frames(
        double.url, prompt=" hello" * 5, max_tokens=3, stream_options={"include_usage": True}
    )
    assert chunks[-1] == "[DONE]"
    bodies = [json.loads(chunk) for chunk in chunks[:-1]]
    assert [len(body["choices"]) for body in bodies] == [1, 1, 1, 0]
    usage = bodies[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (5, 3)
    text = "".join(body["choices"][0]["text"] for body in bodies[:-1])
    assert text == complete(double.url, " hello" * 5, max_tokens=3)[1]["choices"][0]["text"]


def test_a_streamed_chat_opens_with_its_role(double):
    messages = [{"role": "user", "content": "ab"}]
    chunks = frames(double.url, "/v1/chat/completions", messages=messages, max_tokens=2)
    bodies = [json.loads(chunk) for chunk in chunks[:-1]]
    assert bodies[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert bodies[-1]["choices"][0]["finish_reason"] == "length"
    assert "system_fingerprint" in bodies[-1]


def test_a_chat_adds_two_tokens_a_message_and_one(double):
    body = {"model": "tiny", "messages": [{"role": "user", "content": "ab"}], "max_tokens": 1}
    assert ask(double.url, "/v1/chat/completions", body)[1]["usage"]["prompt_tokens"] == 2 + 3


def test_stop_strings_and_stop_tokens_end_a_completion(double):
    whole = complete(double.url, " hello", max_tokens=8, return_token_ids=True)[1]["choices"][0]
    third = whole["token_ids"][2]
    by_token = complete(double.url, " hello", max_tokens=8, stop_token_ids=[third])[1]["choices"][0]
    assert (by_token["finish_reason"], by_token["stop_reason"]) == ("stop", third)
    word = whole["text"].split()[2]
    by_text = complete(double.url, " hello", max_tokens=8, stop=word)[1]["choices"][0]
    assert (by_text["finish_reason"], by_text["stop_reason"]) == ("stop", word)
    assert word not in by_text["text"]


PROMPT = {"model": "tiny", "prompt": " hello", "max_tokens": 1}


@pytest.mark.parametrize(
    ("change", "status", "kind", "param", "text"),
    [
        (
            {"model": "nope"},
            404,
            "NotFoundError",
            "model",
            "The model `nope` does not exist. Valid",
        ),
        ({"max_tokens": 9999}, 400, "BadRequestError", "max_tokens", "max_tokens=9999 cannot be"),
        (
            {"prompt": [300] * 3000},
            400,
            "BadRequestError",
            "input_tokens",
            "maximum context length",
        ),
        ({"priority": "high"}, 400, "Bad Request", "body.priority", "int_parsing"),
        ({"kv_transfer_params": "x"}, 400, "Bad Request", "body.kv_transfer_params", "dict_type"),
        ({"vllm_xargs": {"kv_transfer_params": "x"}}, 500, "InternalServerError", None, ""),
        ({"prompt": None}, 400, "BadRequestError", "prompt", "Either prompt or prompt_embeds"),
        ({"temperature": 3}, 400, "BadRequestError", "temperature", "in [0, 2]"),
        ({"n": 0}, 400, "BadRequestError", None, "n must be at least 1"),
        ({"n": 2, "temperature": 0}, 400, "BadRequestError", None, "when using greedy sampling"),
        ({"cache_salt": ""}, 400, "BadRequestError", "cache_salt", "must be a non-empty string"),
        ({"stop_token_ids": 3}, 400, "Bad Request", "body.stop_token_ids", "list_type"),
        ({"prompt": [99999]}, 400, "BadRequestError", None, "out of vocabulary"),
        ({"stream_options": {}, "max_tokens": 0}, 400, "BadRequestError", "max_tokens", "at least"),
    ],
)
def test_a_wrong_request_gets_the_error_of_vllm(double, change, status, kind, param, text):
    got, body = ask(double.url, "/v1/completions", {**PROMPT, **change})
    error = body["error"]
    assert (got, error["type"], error["param"], error["code"]) == (status, kind, param, status)
    assert text in error["message"]


def test_broken_json_and_unknown_paths(double):
    status, body = ask(double.url, "/v1/completions", raw="{")
    assert (status, body["error"]["param"]) == (400, "body.1")
    assert "json_invalid" in body["error"]["message"]
    assert ask(double.url, "/nothing")[0] == 404


def test_a_prompt_counts_its_prefix_hit(double):
    before = metrics(double.url)
    for _ in range(2):
        complete(double.url, [280 + n for n in range(100)], max_tokens=1)
    after = metrics(double.url)

    def gained(name, **labels):
        return value(after, name, **labels) - value(before, name, **labels)

    assert gained("prompt_tokens_total") == 200
    assert gained("prefix_cache_hits_total") == 96
    assert gained("prompt_tokens_by_source_total", source="local_compute") == 104
    assert gained("prompt_tokens_by_source_total", source="local_cache_hit") == 96
    assert gained("request_success_total", finished_reason="length") == 2


def test_the_pool_is_told_as_vllm_tells_it(double):
    info = next(dict(key[1]) for key in metrics(double.url) if key[0] == "vllm:cache_config_info")
    assert {
        name: info[name] for name in ("block_size", "num_gpu_blocks", "kv_cache_size_tokens")
    } == {
        "block_size": "32",
        "num_gpu_blocks": "128",
        "kv_cache_size_tokens": "4096",
    }
    assert info["kv_cache_max_concurrency"] == "2.0"
    assert (
        "GPU KV cache size: 4,096 tokens, Maximum concurrency for 2,048 tokens per request: "
        "2.00x" in double.output
    )


def test_histograms_are_cumulative_and_complete(double):
    complete(double.url, " hello", max_tokens=2)
    buckets = defaultdict(list)
    series = metrics(double.url)
    for (name, labels), count in series.items():
        if name.endswith("_bucket"):
            buckets[name].append((float(dict(labels)["le"]), count))
    assert len(buckets) >= 16
    for name, bounds in buckets.items():
        counts = [count for _, count in sorted(bounds)]
        assert counts == sorted(counts), name
        assert counts[-1] == value(series, name.removeprefix("vllm:").replace("_bucket", "_count"))


def open_stream(double, tokens, output):
    connection = http.client.HTTPConnection("127.0.0.1", double.port, timeout=20)
    body = {"prompt": [300] * tokens, "max_tokens": output, "ignore_eos": True, "stream": True}
    connection.request(
        "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"}
    )
    response = connection.getresponse()
    response.readline()
    return connection, response


def test_usage_shows_the_blocks_of_a_running_request_and_a_gone_client_frees_them(double):
    connection, response = open_stream(double, 97, 1900)
    series = metrics(double.url)
    assert value(series, "num_requests_running") == 1
    assert round(value(series, "kv_cache_usage_perc") * 127) >= 4
    response.close()
    connection.close()
    deadline = time.monotonic() + 5
    while value(metrics(double.url), "num_requests_running") and time.monotonic() < deadline:
        time.sleep(0.02)
    after = metrics(double.url)
    assert value(after, "kv_cache_usage_perc") == 0
    assert value(after, "request_success_total", finished_reason="abort") >= 1


def test_the_queue_limits_refuse_with_503_and_without_retry_after(model):
    flags = (
        "--max-model-len",
        "512",
        "--max-num-queued-reqs",
        "2",
        "--kv-cache-memory-bytes",
        "4M",
    )
    with Double(model, "--served-model-name", "tiny", *flags) as double:
        double.wait_healthy()
        streams = [open_stream(double, 8, 400) for _ in range(2)]
        status, body = complete(double.url, " hello", max_tokens=1)
        assert (status, body["error"]["type"]) == (503, "Service Unavailable")
        assert body["error"]["message"].startswith("The engine is currently busy")
        counted = metrics(double.url)
        assert value(counted, "admission_rejections_total", reason="max_num_queued_reqs") == 1
        for connection, _ in streams:
            connection.close()


def test_waiting_prompt_tokens_refuse_too(model):
    flags = ("--max-model-len", "2048", "--max-num-queued-tokens", "1000", "--max-num-seqs", "1")
    slow = {"DOUBLE_PREFILL_TOKENS_PER_SECOND": "1000"}
    with Double(model, "--served-model-name", "tiny", *flags, environment=slow) as double:
        double.wait_healthy()
        first = threading.Thread(target=complete, args=(double.url, [300] * 1500))
        first.start()
        deadline = time.monotonic() + 5
        while not value(metrics(double.url), "num_requests_running"):
            assert time.monotonic() < deadline
        status, body = complete(double.url, " hello", max_tokens=1)
        assert status == 503
        assert "prefill token backlog limit" in body["error"]["message"]
        first.join()


def test_an_api_key_guards_the_api_only(model):
    with Double(model, "--api-key", "secret", "--kv-cache-memory-bytes", "16M") as double:
        double.wait_healthy()
        assert ask(double.url, "/v1/models") == (401, {"error": "Unauthorized"})
        assert ask(double.url, "/v1/models", headers={"Authorization": "Bearer secret"})[0] == 200
        assert ask(double.url, "/metrics")[0] == 200
