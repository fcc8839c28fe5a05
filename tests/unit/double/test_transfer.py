"""Prefill and decode doubles are a pair: KV really moves, and goes wrong as it does with NIXL."""

import threading
import time
from contextlib import contextmanager

import pytest
from e2e.double.process import Double, free_port

from .api import ask, complete, frames, metrics, value

FIRST_STEP = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
PROMPT = [300 + number % 150 for number in range(700)]
FLAGS = (
    *("--served-model-name", "tiny", "--max-model-len", "2048", "--block-size", "128"),
    *("--kv-cache-memory-bytes", "16M"),
)
QUICK = {
    "DOUBLE_HANDSHAKE_TIMEOUT_SECONDS": "0.3",
    "DOUBLE_DEATH_SECONDS": "0.3",
    "DOUBLE_SILENT_DEATH_SECONDS": "0.5",
}


def launch(model, role, *flags, policy="fail", lease=30, **environment):
    config = (
        f'{{"kv_connector":"NixlConnector","kv_role":"{role}","kv_load_failure_policy":"{policy}",'
        f'"kv_connector_extra_config":{{"kv_lease_duration":{lease}}}}}'
    )
    place = {
        "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
        "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()),
    }
    return Double(
        model,
        *FLAGS,
        "--kv-transfer-config",
        config,
        *flags,
        environment={**QUICK, **place, **environment},
    )


@contextmanager
def pair(model, *decode_flags, policy="fail", lease=30):
    with (
        launch(model, "kv_producer", lease=lease) as prefill,
        launch(model, "kv_consumer", *decode_flags, policy=policy) as decode,
    ):
        yield prefill.wait_healthy(), decode.wait_healthy()


@pytest.fixture(scope="module")
def engines(model):
    with pair(model) as both:
        yield both


def first_step(prefill, prompt=PROMPT, max_tokens=1):
    status, body = complete(
        prefill.url, prompt, max_tokens=max_tokens, kv_transfer_params=FIRST_STEP
    )
    assert status == 200
    return body["kv_transfer_params"]


def second_step(decode, params, prompt=PROMPT, **fields):
    return complete(decode.url, prompt, max_tokens=8, kv_transfer_params=params, **fields)


def test_the_first_step_answers_where_its_blocks_are(engines):
    params = first_step(engines[0])
    assert params["do_remote_prefill"]
    assert [len(group) for group in params["remote_block_ids"]] == [6]
    assert params["remote_num_tokens"] == 700
    assert params["remote_request_id"].startswith("cmpl-")
    assert params["transfer_mode"] == "pull"
    assert value(metrics(engines[0].url), "kv_cache_usage_perc") > 0


def test_the_second_step_moves_the_kv_and_computes_nothing(model):
    with pair(model) as (prefill, decode):
        text = complete(prefill.url, PROMPT, max_tokens=8)[1]["choices"][0]["text"]
        params = first_step(prefill)
        assert params["remote_prefill_cached_tokens"] == 640
        status, body = second_step(decode, params)
        assert (status, body["choices"][0]["text"]) == (200, text)
        series = metrics(decode.url)
        assert value(series, "prompt_tokens_by_source_total", source="external_kv_transfer") == 700
        assert value(series, "prompt_tokens_by_source_total", source="local_compute") == 0
        assert value(series, "prompt_tokens_cached_by_source_total", source="p2p") == 700
        assert value(series, "external_prefix_cache_hits_total") == 700
        assert value(series, "nixl_xfer_time_seconds_count") == 1
        assert value(series, "nixl_bytes_transferred_sum") == 6 * 128 * 1024
        assert value(metrics(prefill.url), "kv_cache_usage_perc") == 0
        second_step(decode, first_step(prefill))
        again = metrics(decode.url)
        assert value(again, "prompt_tokens_by_source_total", source="local_cache_hit") == 640
        assert value(again, "prompt_tokens_by_source_total", source="external_kv_transfer") == 760


def test_a_streamed_first_step_loses_the_parameters(engines):
    chunks = frames(engines[0].url, prompt=PROMPT, max_tokens=1, kv_transfer_params=FIRST_STEP)
    assert not any("remote_block_ids" in chunk for chunk in chunks)


@pytest.mark.parametrize("params", [None, {}, {"do_remote_prefill": False}])
def test_without_parameters_the_decode_engine_computes_the_prompt(engines, params):
    assert second_step(engines[1], params)[0] == 200


def test_blocks_of_another_prompt_give_another_text(engines):
    prefill, decode = engines
    other = [450 - number % 150 for number in range(700)]
    truth = complete(prefill.url, other, max_tokens=8)[1]["choices"][0]["text"]
    status, body = second_step(decode, first_step(prefill), prompt=other)
    assert status == 200
    assert body["choices"][0]["text"] != truth


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"remote_engine_id": "other"}, 1),
        ({"remote_block_ids": [[1, 2, 3, 4, 5, 99999]]}, 1),
        ({"remote_port": 1, "remote_engine_id": "new"}, 2),
    ],
)
def test_a_failed_transfer_is_a_500_and_the_engine_lives(engines, change, failed):
    prefill, decode = engines
    prompt = [330 + number % 70 + failed for number in range(700)]
    before = value(metrics(decode.url), "nixl_num_failed_transfers_total")
    status, body = second_step(decode, first_step(prefill, prompt) | change, prompt)
    assert status == 500
    assert body["error"] == {
        "message": "Internal server error",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
    after = metrics(decode.url)
    assert value(after, "nixl_num_failed_transfers_total") - before == failed
    assert complete(decode.url, " hello", max_tokens=1)[0] == 200


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_a_prefill_engine_that_is_gone(model, policy):
    with pair(model, policy=policy) as (prefill, decode):
        second_step(decode, first_step(prefill))
        params = first_step(prefill, PROMPT[::-1])
        prefill.process.kill()
        prefill.wait()
        status, _ = second_step(decode, params, PROMPT[::-1])
        assert status == (200 if policy == "recompute" else 500)
        series = metrics(decode.url)
        computed = value(series, "prompt_tokens_by_source_total", source="local_compute")
        assert computed == (700 if policy == "recompute" else 0)
        assert value(series, "nixl_num_failed_transfers_total") == 2
        assert value(series, "nixl_num_failed_notifications_total") == 1


BROKEN = [
    ({"do_remote_prefill": True}, "AssertionError"),
    ({"remote_block_ids": None}, "AssertionError"),
    ({"remote_num_tokens": None}, "AssertionError"),
    ({"remote_block_ids": [1, 2]}, "TypeError: 'int' object is not iterable"),
    ({"remote_block_ids": [[1, 2, 3]]}, "RuntimeError: Worker failed with error ''"),
]


@pytest.mark.parametrize(("change", "cause"), BROKEN)
def test_broken_parameters_kill_the_decode_engine_with_exit_code_0(model, engines, change, cause):
    is_alone = "do_remote_prefill" in change
    params = change if is_alone else first_step(engines[0]) | change
    with launch(model, "kv_consumer") as decode:
        decode.wait_healthy()
        status, body = second_step(decode, params)
        assert status == 500
        assert body["error"]["message"].startswith("EngineCore encountered an issue.")
        assert decode.health() in (503, 0)
        assert decode.wait() == 0
        assert cause in decode.output
        assert "shutdown triggered" not in decode.output


def test_a_missing_request_id_leaves_the_client_without_an_answer(model, engines):
    params = first_step(engines[0]) | {"remote_request_id": None}
    with launch(model, "kv_consumer") as decode:
        decode.wait_healthy()
        with pytest.raises(ConnectionError):
            second_step(decode, params)
        assert decode.wait() == 0
        assert "KeyError: 'remote_request_id'" in decode.output


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (("--kv-cache-dtype", "fp8"), "NIXL compatibility hash mismatch"),
        (("--attention-backend", "FLASHINFER"), "NIXL compatibility hash mismatch"),
        (("--disable-hybrid-kv-cache-manager",), "NIXL compatibility hash mismatch"),
        (("--block-size", "64"), "Local block size 64 is not divisible by remote block size 128"),
    ],
)
def test_a_pair_that_does_not_fit_is_ready_and_fails_each_request(model, engines, flags, cause):
    with launch(model, "kv_consumer", *flags) as decode:
        decode.wait_healthy()
        assert second_step(decode, first_step(engines[0]))[0] == 500
        assert decode.health() == 200
        assert cause in decode.output


def test_an_abandoned_first_step_is_freed_when_its_lease_ends(model):
    with launch(model, "kv_producer", lease=0.4) as prefill:
        prefill.wait_healthy()
        first_step(prefill)
        assert value(metrics(prefill.url), "kv_cache_usage_perc") > 0
        deadline = time.monotonic() + 5
        while value(metrics(prefill.url), "kv_cache_usage_perc"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert value(metrics(prefill.url), "nixl_num_kv_expired_reqs_total") == 1
        assert "Releasing expired KV blocks for request" in prefill.output


def test_a_refused_second_step_frees_the_blocks_at_once(model):
    with pair(model) as (prefill, decode):
        params = first_step(prefill)
        status, _ = complete(decode.url, PROMPT, max_tokens=99999, kv_transfer_params=params)
        assert status == 400
        deadline = time.monotonic() + 2
        while value(metrics(prefill.url), "kv_cache_usage_perc"):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_frozen_prefill_engine_gives_no_answer(model):
    with pair(model) as (prefill, decode):
        params = first_step(prefill)
        prefill.process.send_signal(19)  # SIGSTOP: a hung node
        answers = []

        def request():
            body = {"model": "tiny", "prompt": PROMPT, "kv_transfer_params": params}
            with pytest.raises(TimeoutError):
                ask(decode.url, "/v1/completions", body, timeout=1.0)
            answers.append("no answer")

        waiting = threading.Thread(target=request)
        waiting.start()
        waiting.join()
        assert answers == ["no answer"]
        assert decode.health() == 200


def test_without_a_connector_the_parameters_are_ignored(double):
    assert second_step(double, {"do_remote_prefill": True})[0] == 200
