"""The process starts, fails and ends with the texts and exit codes of `vllm serve`."""

import http.client
import json
import signal
import socket
import subprocess
import threading
import time

import pytest
from e2e.double import command, failures
from e2e.double.process import Double, free_port

from .api import ask, complete, metrics, value
from .conftest import FLAGS

QUICK = {"DOUBLE_TEARDOWN_SECONDS": "0.3", "DOUBLE_DEATH_SECONDS": "0.3"}


@pytest.fixture
def fail(capfd, monkeypatch):
    """Run a double that does not start, in this process; returns exit code and output."""

    def run(model, *flags, **environment):
        for variable, text in environment.items():
            monkeypatch.setenv(variable, text)
        try:
            code = command.main(["serve", str(model), "--port", str(free_port()), *flags])
        except SystemExit as refusal:  # argparse's way to end
            code = refusal.code
        out, err = capfd.readouterr()
        return code, out + err

    return run


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--foo-bar", "1"], "vllm: error: unrecognized arguments: --foo-bar 1"),
        (["--swap-space", "4"], "unrecognized arguments: --swap-space 4"),
        (["--kv-cache-dtype", "int8"], "invalid choice: 'int8' (choose from 'auto', 'bfloat16'"),
        (["--kv-cache-memory-bytes", "64Gi"], "Value 64Gi cannot be converted to <function human"),
        (["--kv-cache-memory-bytes", "1.5M"], "Did you mean to use 1.5m instead?"),
        (["--max-model-len", "abc"], "invalid human_readable_int_or_auto value: 'abc'"),
        (["--enable-prefix-caching=true"], "ignored explicit argument 'true'"),
        (["--speculative-config", "ngram"], "--speculative-config/-sc: Value ngram cannot be"),
        (["--kv-offloading-size", "1G"], "cannot be converted to <class 'float'>"),
        (["--max-lora-rank", "7"], "invalid choice: 7 (choose from 1, 8, 16"),
        (["--scheduling-policy", "sjf"], "invalid choice: 'sjf' (choose from 'fcfs', 'priority')"),
        (["--kv-transfer-config", '{"kv_buffer_size":1}'], "kv_buffer_size\n  Unexpected keyword"),
        (["--kv-transfer-config", '{"kv_connector":"NixlConnector"}'], "Please specify kv_role"),
        (["--kv-transfer-config.kv_role", "prefill"], "'kv_producer', 'kv_both' or 'kv_consumer'"),
        (["--kv-transfer-config", "nixl"], "Invalid JSON"),
    ],
)
def test_what_the_parser_refuses_ends_with_code_2(fail, model, flags, text):
    code, output = fail(model, *flags)
    assert code == 2
    assert text in output


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--max-model-len", "0"], "max_model_len must be a positive integer, got int: 0"),
        (["--max-model-len", "99999"], "max_model_len (99999) is greater than the derived"),
        (
            ["--max-num-batched-tokens", "64", "--max-num-seqs", "128"],
            "(64) must be greater than or",
        ),
        (
            ["--max-num-batched-tokens", "512", "--no-enable-chunked-prefill"],
            "max_num_batched_tokens (512) is smaller than max_model_len (8192)",
        ),
        (
            ["--long-prefill-token-threshold", "2048", "--max-model-len", "1024"],
            "long_prefill_token_threshold (2048) cannot be greater than the max_model_len (1024)",
        ),
        (["--gpu-memory-utilization", "1.5"], "Input should be less than or equal to 1"),
        (["--stream-interval", "0"], "Input should be greater than or equal to 1"),
        (["-tp", "3"], "attention heads (4) must be divisible by tensor parallel size (3)"),
        (["--kv-transfer-config", '{"kv_role":"kv_both"}'], "Connector name is not set in"),
        (
            ["--kv-transfer-config", '{"kv_connector":"P2pNcclConnector","kv_role":"kv_both"}'],
            "Unsupported connector type: P2pNcclConnector",
        ),
        (["--kv-cache-memory-bytes", "-5"], "No available memory for the cache blocks. Try incr"),
        (
            ["--kv-cache-memory-bytes", "1M", "--max-model-len", "2048"],
            "maximum model length is 1008.",
        ),
        (["--tokenizer", "/nope/tokenizer"], "Repo id must be in the form"),
    ],
)
def test_what_the_configuration_refuses_ends_with_code_1(fail, model, flags, text):
    code, output = fail(model, *flags)
    assert code == 1
    assert text in output
    assert "Traceback (most recent call last):" in output


@pytest.mark.parametrize(
    ("name", "environment", "text"),
    [
        ("/nope/model", {}, "Repo id must be in the form 'repo_name' or 'namespace/repo_name'"),
        ("a/b", {"HF_HUB_OFFLINE": "1"}, "LocalEntryNotFoundError: Cannot find an appropriate"),
        ("a/b", {"HF_HUB_OFFLINE": "0"}, "We couldn't connect to 'https://huggingface.co'"),
        ("{empty}", {}, "1 validation error for ModelConfig"),
        ("{sliding}", {}, "Transformers does not recognize this architecture"),
    ],
)
def test_a_model_that_is_not_there_is_named(fail, tmp_path, name, environment, text):
    (tmp_path / "empty").mkdir()
    (tmp_path / "sliding").mkdir()
    config = {"model_type": "mistral", "sliding_window": 4096}
    (tmp_path / "sliding" / "config.json").write_text(json.dumps(config))
    place = name.format(empty=tmp_path / "empty", sliding=tmp_path / "sliding")
    code, output = fail(place, **environment)
    assert code == 1
    assert text in output


def test_a_hub_id_is_found_in_the_hub_folder(model, tmp_path):
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "name").symlink_to(model)
    with Double("org/name", environment={"DOUBLE_HUB": str(tmp_path)}) as double:
        double.wait_healthy()
        assert ask(double.url, "/v1/models")[1]["data"][0]["root"] == "org/name"


def test_underscores_prefixes_and_the_last_of_two_values_count(model):
    flags = (
        "--max_model",
        "2k",
        "--block-size",
        "16",
        "--block-size=32",
        "--kv-cache-memory",
        "4M",
    )
    with Double(model, *flags) as double:
        double.wait_healthy()
        assert "tokens per request: 2.03x" in double.output  # 128 blocks of 32; 63 hold 2000
        assert ask(double.url, "/v1/models")[1]["data"][0]["max_model_len"] == 2000


def test_0_33_knows_flags_that_0_32_does_not(fail, model):
    assert fail(model, "--sleep-mode-backend", "x")[0] == 2
    flags = ("--reasoning-effort-map", "{}", "--kv-cache-memory-bytes", "16M")
    with Double(model, *flags, version="0.33.0") as double:
        double.wait_healthy()
        assert ask(double.url, "/version")[1] == {"version": "0.33.0"}


def test_an_unknown_setting_of_the_double_is_refused(fail, model):
    code, output = fail(model, DOUBLE_STEPS="3")
    assert code == 2
    assert "DOUBLE_STEPS is not a setting of the double" in output


def test_a_taken_port_is_found_before_the_model_loads(fail, model):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        flags = ("--port", str(taken.getsockname()[1]))
        code, output = fail(model, *flags, DOUBLE_START_SECONDS="60")
    assert code == 1
    assert "OSError: [Errno 98] Address already in use" in output


CAUSES = [
    ("kv-too-small", 1, "the estimated maximum model length is"),
    ("no-kv-memory", 1, "ValueError: No available memory for the cache blocks."),
    (
        "cuda-oom-load",
        1,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    ),
    ("cuda-oom-capture", 1, "Capturing CUDA graphs"),
    ("gpu-busy", 1, "on startup is less than desired GPU memory utilization (0.92, 73.6 GiB)."),
    ("unknown-flag", 2, "vllm: error: unrecognized arguments: --swap-space 4"),
    ("model-not-found", 1, "is not a valid model identifier listed on"),
    ("revision-not-found", 1, "is not a valid git identifier"),
    ("gated-model", 1, "Cannot access gated repo for url https://huggingface.co/"),
    ("shm-too-small", 1, "Insufficient space in /dev/shm for shared-memory allocation: 160 MiB"),
    ("nixl-missing", 1, "RuntimeError: Worker failed with error 'NIXL is not available'"),
]


@pytest.mark.parametrize(("cause", "code", "text"), CAUSES)
def test_each_cause_of_a_failed_start_has_its_text_and_code(fail, model, cause, code, text):
    got, output = fail(model, DOUBLE_FAIL=cause, HF_TOKEN="")
    assert got == code
    assert text in output
    if code == 1 and "huggingface" not in output:
        assert "Engine core initialization failed. See root cause above." in output.splitlines()[-1]


def test_memory_that_runs_out_at_capture_does_so_after_the_load(fail, model):
    assert "Model loading took" in fail(model, DOUBLE_FAIL="cuda-oom-capture")[1]
    assert "Model loading took" not in fail(model, DOUBLE_FAIL="cuda-oom-load")[1]


def test_a_gated_model_answers_401_without_and_403_with_a_token(fail, model):
    assert "401 Client Error" in fail(model, DOUBLE_FAIL="gated-model", HF_TOKEN="")[1]
    assert "403 Client Error" in fail(model, DOUBLE_FAIL="gated-model", HF_TOKEN="x")[1]


def test_a_failure_can_be_limited_to_some_starts(fail, model, tmp_path):
    world = {
        "DOUBLE_FAIL": "gpu-busy",
        "DOUBLE_FAIL_TIMES": "2",
        "DOUBLE_FAIL_STATE": str(tmp_path / "count"),
    }
    assert [fail(model, **world)[0] for _ in range(2)] == [1, 1]
    with Double(model, *FLAGS, environment=world) as double:
        double.wait_healthy()


def test_a_hanging_start_is_never_healthy_and_can_be_ended(model):
    with Double(model, environment={"DOUBLE_FAIL": "hang"}) as double:
        with pytest.raises(subprocess.TimeoutExpired):
            double.wait(1.0)
        assert double.health() == 0
        double.process.terminate()
        assert double.wait() == 130


@pytest.mark.parametrize(
    ("cause", "code", "text"),
    [
        ("exit-zero", 0, "Worker proc VllmWorker-0 died unexpectedly (exit code: None)"),
        ("oom-kill", 137, "Application startup complete."),
    ],
)
def test_an_engine_that_dies_while_serving(fail, model, cause, code, text):
    world = {**QUICK, "DOUBLE_FAIL": cause, "DOUBLE_FAIL_AFTER_SECONDS": "0.5"}
    if cause == "oom-kill" and has_small_memory_limit():
        pytest.fail("this process runs under a small memory limit: the test would be killed")
    with Double(model, *FLAGS, environment=world) as double:
        double.wait_healthy()
        assert double.wait() == code
        assert text in double.output
        assert "shutdown triggered" not in double.output


def has_small_memory_limit():
    limits = [failures._limit(path) for path in failures.LIMIT_FILES]
    return any(limit and limit <= failures.LARGEST_FILL_BYTES for limit in limits)


def test_death_in_a_stream_is_an_error_frame_and_done(model):
    world = {**QUICK, "DOUBLE_FAIL": "exit-zero", "DOUBLE_FAIL_AFTER_SECONDS": "0.7"}
    with Double(model, *FLAGS, environment=world) as double:
        double.wait_healthy()
        body = {"prompt": "a", "max_tokens": 2000, "stream": True, "ignore_eos": True}
        status, text = ask(double.url, "/v1/completions", body)
    frames = [line[6:] for line in text.split("\n\n") if line]
    assert status == 200
    assert frames[-1] == "[DONE]"
    assert json.loads(frames[-2])["error"]["message"].startswith("EngineCore encountered an issue.")


def test_an_engine_can_become_unhealthy_or_hang_for_the_liveness_probe(model):
    world = {"DOUBLE_FAIL": "unhealthy-after", "DOUBLE_FAIL_AFTER_SECONDS": "0.3"}
    with Double(model, *FLAGS, environment=world) as double:
        double.wait_healthy()
        time.sleep(0.5)
        assert double.health() == 503
    world["DOUBLE_FAIL"] = "hang-after"
    with Double(model, *FLAGS, environment=world) as double:
        double.wait_healthy()
        time.sleep(0.5)
        assert double.health() == 0


def test_services_named_vllm_break_the_start(fail, model):
    code, output = fail(model, VLLM_PORT="tcp://10.0.0.1:8000")
    assert code == 1
    assert "VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI." in output


# --- the end


def background(double, output):
    """Run a streamed request of some tokens in a thread; its frames come when it is over."""
    frames = []

    def request():
        body = {"prompt": "a", "max_tokens": output, "stream": True, "ignore_eos": True}
        frames.extend(ask(double.url, "/v1/completions", body)[1].split("\n\n"))

    thread = threading.Thread(target=request)
    thread.start()
    deadline = time.monotonic() + 5
    while not value(metrics(double.url), "num_requests_running"):
        assert time.monotonic() < deadline
    return thread, frames


def test_sigterm_aborts_streams_that_look_complete(model):
    with Double(model, *FLAGS) as double:
        double.wait_healthy()
        thread, frames = background(double, 2000)
        double.process.send_signal(signal.SIGTERM)
        assert double.wait(3) == 0
        thread.join()
        assert frames[-2] == "data: [DONE]"
        assert json.loads(frames[-3][6:])["choices"][0]["finish_reason"] == "abort"
        assert "[shutdown] API server: shutdown triggered" in double.output


def test_a_draining_server_is_healthy_and_swallows_new_requests(model):
    flags = (*FLAGS, "--shutdown-timeout", "20")
    with Double(model, *flags, environment=QUICK) as double:
        double.wait_healthy()
        thread, frames = background(double, 300)
        double.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert double.health() == 200
        status, body = complete(double.url, " hello", max_tokens=4)
        assert status == 200
        assert (body["choices"][0]["text"], body["choices"][0]["finish_reason"]) == ("", "abort")
        thread.join()
        assert json.loads(frames[-3][6:])["choices"][0]["finish_reason"] == "length"
        assert double.wait(5) == 0
        assert "draining in-flight requests count=1 timeout=20s" in double.output


def test_a_drain_that_takes_too_long_leaves_streams_without_a_word(model):
    flags = (*FLAGS, "--shutdown-timeout", "1")
    with Double(model, *flags, environment={"DOUBLE_STEP_SECONDS": "0.05"}) as double:
        double.wait_healthy()
        connection = http.client.HTTPConnection("127.0.0.1", double.port, timeout=3)
        body = json.dumps({"prompt": "a", "max_tokens": 2000, "stream": True, "ignore_eos": True})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.readline()
        double.process.send_signal(signal.SIGTERM)
        with pytest.raises(TimeoutError):
            response.read()
        assert double.health() == 0
        assert double.process.poll() is None
        connection.sock.close() if connection.sock else None
        response.close()
        connection.close()
        assert double.wait(5) == 0


def test_a_double_is_light_and_quick(model):
    started = time.monotonic()
    with Double(model, *FLAGS) as double:
        double.wait_healthy()
        seconds = time.monotonic() - started
        status = (f"/proc/{double.process.pid}/status",)
        with open(*status) as lines:
            kib = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    assert kib < 60 * 1024
    assert seconds < 10  # half a second on an idle machine
