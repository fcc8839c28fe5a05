"""Every way to fail that was observed is named, with its numbers and a way to mend it."""

import re
from string import Formatter

import pytest

from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.reasons import Reason
from tidegate.facts import failures, package_data

GIB = 2**30
MIB = 2**20

# What vLLM's API server prints when its engine did not start: always below the cause.
TEARDOWN = """\
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/usr/local/bin/vllm", line 10, in <module>
(APIServer pid=1)     sys.exit(main())
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. \
Failed core proc(s): {'EngineCore': 1}
[rank0]:[W1129 19:30:11] Warning: WARNING: destroy_process_group() was not called
"""

KV_TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (2048), (0.5 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (0.25 GiB). Based on the "
    "available memory, the estimated maximum model length is 928. Try increasing ..."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 MiB. GPU 6 has a total "
    "capacity of 44.53 GiB of which 448.00 KiB is free. Including non-PyTorch memory, this "
    "process has 44.52 GiB memory in use. Of the allocated memory 43.00 GiB is allocated by PyTorch"
)
OLD_OOM = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 79.15 GiB "
    "total capacity; 77.01 GiB already allocated; 512.69 MiB free; 77.40 GiB reserved in total)"
)
FREE_MEMORY = (
    "ValueError: Free memory on device cuda:0 (12.5/79.18 GiB) on startup is less than desired GPU "
    "memory utilization (0.92, 72.85 GiB). Decrease GPU memory utilization or reduce GPU memory "
    "used by other processes."
)
CAPTURE = "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE):  13%|#2   | 9/67"
STARTED = "(APIServer pid=1) INFO:     Application startup complete."

# (what went wrong, the line, the reason, a part of the message)
OBSERVED = [
    ("KV below maxModelLen", KV_TOO_SMALL, Reason.KV_CACHE_TOO_SMALL, "maxModelLen` to 928"),
    (
        "KV below any length",
        "ValueError: To serve at least one request with the model's max seq len (2048), (2.0 GiB "
        "KV cache is needed, which is larger than the available KV cache memory (0.0 GiB). Try",
        Reason.KV_CACHE_TOO_SMALL,
        "too little for any length",
    ),
    (
        "no KV at all",
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
        Reason.KV_CACHE_TOO_SMALL,
        "No memory is left",
    ),
    (
        "KV above host memory",
        "ValueError: Available memory on node 0 (9.62/12.84 GiB) on kv cache allocation is less "
        "than requested memory for kv (93.13 GiB). Decrease --kv-cache-memory-bytes",
        Reason.ENGINE_ARGUMENT_INVALID,
        "93.13 GiB",
    ),
    (
        "host memory taken",
        "ValueError: Available memory on node 0 (10.02/12.84 GiB) on startup is less than desired "
        "CPU memory utilization (0.99, 12.71 GiB).",
        Reason.ENGINE_ARGUMENT_INVALID,
        "12.71 GiB",
    ),
    ("GPU held", FREE_MEMORY, Reason.GPU_STILL_HELD, "12.5 of 79.18 GiB"),
    (
        "unknown flag",
        "vllm: error: unrecognized arguments: --foo-bar 1",
        Reason.ENGINE_FLAG_UNKNOWN,
        "`--foo-bar 1`",
    ),
    (
        "invalid choice",
        "vllm serve: error: argument --kv-cache-dtype: invalid choice: 'int8' (choose from 'auto')",
        Reason.ENGINE_ARGUMENT_INVALID,
        "--kv-cache-dtype",
    ),
    (
        "unknown key of a JSON flag",
        "vllm: error: argument --kv-transfer-config: 1 validation error for KVTransferConfig\n"
        "kv_buffer_size\n  Unexpected keyword argument [type=unexpected_keyword_argument]",
        Reason.ENGINE_ARGUMENT_INVALID,
        "kv_buffer_size",
    ),
    (
        "ambiguous abbreviation",
        "vllm: error: ambiguous option: --max-num-queued could match --max-num-queued-reqs, "
        "--max-num-queued-tokens",
        Reason.ENGINE_ARGUMENT_INVALID,
        "in full",
    ),
    (
        "attention backend",
        "ValueError: Unknown attention backend: 'NOPE'. Valid options are: FLASH_ATTN",
        Reason.ENGINE_ARGUMENT_INVALID,
        "'NOPE'",
    ),
    (
        "connector",
        "  Value error, Unsupported connector type: P2pNcclConnector [type=value_error]",
        Reason.ENGINE_ARGUMENT_INVALID,
        "P2pNcclConnector",
    ),
    (
        "batch below sequences",
        "  Value error, max_num_batched_tokens (64) must be greater than or equal to max_num_seqs "
        "(128).",
        Reason.ENGINE_ARGUMENT_INVALID,
        "(64)",
    ),
    (
        "heads over tensor parallel",
        "ValueError: Total number of attention heads (4) must be divisible by tensor parallel "
        "size (3).",
        Reason.ENGINE_ARGUMENT_INVALID,
        "(3)",
    ),
    (
        "too long a model length",
        "  Value error, User-specified max_model_len (8192) is greater than the derived "
        "max_model_len (max_position_embeddings=4096.0 or model_max_length=None in config)",
        Reason.ENGINE_ARGUMENT_INVALID,
        "4096",
    ),
    (
        "utilization out of range",
        "1 validation error for CacheConfig\ngpu_memory_utilization\n  Input should be less than "
        "or equal to 1",
        Reason.ENGINE_ARGUMENT_INVALID,
        "less than or equal to 1",
    ),
    (
        "block size",
        "ValueError: No common block size for 33 (CPU_ATTN: [MultipleOf(32)]).",
        Reason.ENGINE_ARGUMENT_INVALID,
        "33",
    ),
    (
        "no such path",
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': '/nope/model'. Use `repo_type` argument if needed.",
        Reason.MODEL_NOT_FOUND,
        "/nope/model",
    ),
    (
        "folder without config.json",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, Invalid repository ID or local directory specified: '/models/empty'.",
        Reason.MODEL_NOT_FOUND,
        "/models/empty",
    ),
    (
        "hub forbidden",
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached "
        "snapshot folder for the specified revision on the local disk and outgoing traffic has "
        "been disabled.",
        Reason.MODEL_HUB_UNREACHABLE,
        "HF_HUB_OFFLINE",
    ),
    (
        "hub unreachable",
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
        "find them in the cached files.",
        Reason.MODEL_HUB_UNREACHABLE,
        "Allow the pods out",
    ),
    (
        "no such revision",
        "huggingface_hub.errors.RevisionNotFoundError: 404 Client Error. (Request ID: Root=1-2)\n\n"
        "Revision Not Found for url: https://huggingface.co/org/model/resolve/abc/config.json.",
        Reason.MODEL_REVISION_NOT_FOUND,
        "spec.model.revision",
    ),
    (
        "gated model",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-66f4)\n\n"
        "Cannot access gated repo for url https://huggingface.co/org/model/resolve/main/x.\n"
        "Access to model org/model is restricted. You must have access to it.",
        Reason.MODEL_ACCESS_DENIED,
        "gated",
    ),
    (
        "token without access",
        "httpx.HTTPStatusError: Client error '403 Forbidden' for url 'https://huggingface.co/org'",
        Reason.MODEL_ACCESS_DENIED,
        "tokenSecretRef",
    ),
    (
        "wrong token",
        "huggingface_hub.errors.HfHubHTTPError: 401 Client Error: Unauthorized for url: "
        "https://huggingface.co/api/models/org/model. Invalid credentials in Authorization header",
        Reason.MODEL_ACCESS_DENIED,
        "refused the token",
    ),
    (
        "no such model",
        "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)\n\n"
        "Repository Not Found for url: https://huggingface.co/api/models/org/nope.",
        Reason.MODEL_NOT_FOUND,
        "spec.model.id",
    ),
    (
        "truncated weights",
        "safetensors._safetensors_rust.SafetensorError: Error while deserializing header: "
        "incomplete metadata, file not fully covered",
        Reason.MODEL_FILES_BROKEN,
        "incomplete metadata",
    ),
    (
        "unknown architecture",
        "ValueError: The checkpoint you are trying to load has model type `foo` but Transformers "
        "does not recognize this architecture.",
        Reason.MODEL_FILES_BROKEN,
        "architecture",
    ),
    (
        "port in use",
        "OSError: [Errno 98] Address already in use",
        Reason.ENGINE_ARGUMENT_INVALID,
        "port",
    ),
    (
        "no NIXL",
        "RuntimeError: Worker failed with error 'NIXL is not available'",
        Reason.KV_TRANSFER_LIBRARY_MISSING,
        "NIXL",
    ),
    (
        "no LMCache",
        "ModuleNotFoundError: No module named 'lmcache'",
        Reason.KV_TRANSFER_LIBRARY_MISSING,
        "lmcache",
    ),
    (
        "a Service named vllm",
        "ValueError: VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI. This may be caused by a "
        "Kubernetes service discovery issue,...",
        Reason.ENGINE_ARGUMENT_INVALID,
        "enableServiceLinks",
    ),
    (
        "small /dev/shm",
        "RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB "
        "required, 64 MiB free. Increase /dev/shm (e.g. --shm-size or --ipc=host).",
        Reason.SHARED_MEMORY_TOO_SMALL,
        "160 MiB",
    ),
    (
        "/dev/shm filled by NCCL",
        "misc/shmutils.cc:129 NCCL WARN Error while creating shared memory segment "
        "/dev/shm/nccl-Ewjreo (size 33030528), error: No space left on device (28)",
        Reason.SHARED_MEMORY_TOO_SMALL,
        "/dev/shm",
    ),
    (
        "incompatible pair",
        "RuntimeError: NIXL compatibility hash mismatch. Local: 933a.., Remote: f88c.. Prefill "
        "and decode instances have incompatible configurations.",
        Reason.PAIR_INCOMPATIBLE,
        "Make the two pools alike",
    ),
    (
        "incompatible blocks",
        "AssertionError: Local block size 64 is not divisible by remote block size 128 or vice "
        "versa.",
        Reason.PAIR_INCOMPATIBLE,
        "128 tokens on prefill",
    ),
    ("GPU full at load", OOM, Reason.CUDA_OOM_AT_LOAD, "2.00 MiB asked for"),
    ("GPU full at load, old torch", OLD_OOM, Reason.CUDA_OOM_AT_LOAD, "512.69 MiB of 79.15 GiB"),
    (
        "GPU full at load, in vLLM's words",
        "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization "
        "(original error: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
        "capacity of 22.03 GiB of which 500.00 MiB is free. )",
        Reason.CUDA_OOM_AT_LOAD,
        "quantised weights",
    ),
    ("GPU full, bare", "RuntimeError: CUDA error: out of memory", Reason.CUDA_OOM_AT_LOAD, "load"),
    ("GPU full at capture", f"{CAPTURE}\n{OOM}", Reason.CUDA_OOM_AT_CAPTURE, "enforceEager"),
    (
        "GPU full at capture, bare",
        f"{CAPTURE}\nRuntimeError: CUDA error: out of memory",
        Reason.CUDA_OOM_AT_CAPTURE,
        "captured",
    ),
    (
        "GPU full at warm-up",
        f"{OOM}\nRuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy "
        "requests. Please try lowering `max_num_seqs`",
        Reason.CUDA_OOM_AT_CAPTURE,
        "maxNumSeqs",
    ),
    (
        "GPU full while serving",
        f"{CAPTURE}\n{STARTED}\n{OOM}",
        Reason.CUDA_OOM_WHILE_SERVING,
        "while it served",
    ),
    (
        "GPU full because of another process",
        OOM.replace(
            "this process has", "Process 4242 has 30.10 GiB memory in use. This process has"
        ),
        Reason.GPU_STILL_HELD,
        "30.10 GiB",
    ),
    (
        "worker killed",
        f"{STARTED}\nWorker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down "
        "executor.\nEngineCore encountered a fatal error.",
        Reason.ENGINE_CRASHED,
        "resources.limits.memory",
    ),
    (
        "EngineCore killed",
        f"{STARTED}\nAsyncLLM output_handler failed.\nvllm.v1.engine.exceptions.EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        Reason.ENGINE_CRASHED,
        "died while serving",
    ),
    (
        "bad transfer parameters",
        f"{STARTED}\nEngineCore encountered a fatal error.\nTraceback (most recent call last):\n"
        "KeyError: 'remote_request_id'\nvllm.v1.engine.exceptions.EngineDeadError: EngineCore",
        Reason.ENGINE_CRASHED,
        "KeyError: 'remote_request_id'",
    ),
    (
        "unknown error",
        "ZeroDivisionError: integer division or modulo by zero",
        Reason.CRASH_LOOPING,
        "ZeroDivisionError",
    ),
]


def as_engine_core(text: str) -> str:
    """Write each line as vLLM's engine process does."""
    head = "(EngineCore pid=217) ERROR 11-29 19:30:11 [core.py:1042] "
    return "\n".join(head + line for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "reason", "part"), [row[1:] for row in OBSERVED], ids=[row[0] for row in OBSERVED]
)
@pytest.mark.parametrize("written", [str, as_engine_core], ids=["plain", "prefixed"])
def test_every_observed_failure_is_named(text, reason, part, written):
    head = "(APIServer pid=1) INFO 11-29 19:29:50 [utils.py:299] vLLM API server version 0.32.0\n"

    found = failures.diagnose(head + written(text) + "\n" + TEARDOWN)

    assert found is not None
    assert found.reason is reason
    assert part in failures.message(found)
    assert "Engine core initialization failed" not in found.cause
    assert "pid=" not in found.cause
    assert "?" not in failures.message(found)


def test_the_numbers_are_bytes_and_tokens():
    found = failures.diagnose(KV_TOO_SMALL)

    assert found.numbers == {
        "max_model_len_tokens": 2048,
        "needed_bytes": GIB // 2,
        "available_bytes": GIB // 4,
        "estimated_max_model_len_tokens": 928,
    }


def test_an_out_of_memory_error_tells_what_was_asked_for():
    found = failures.diagnose(OOM)

    assert found.numbers == {
        "tried_bytes": 2 * MIB,
        "total_bytes": round(44.53 * GIB),
        "free_bytes": 448 * 1024,
    }


def test_a_held_gpu_tells_how_much_is_free():
    assert failures.diagnose(FREE_MEMORY).numbers == {
        "free_bytes": round(12.5 * GIB),
        "total_bytes": round(79.18 * GIB),
        "wanted_bytes": round(72.85 * GIB),
    }


def test_advice_about_memory_is_no_failure():
    advice = (
        "INFO 03-27 10:29:03 [model_runner.py:1442] Capturing cudagraphs for decoding. If "
        "out-of-memory error occurs during cudagraph capture, consider decreasing "
        "`gpu_memory_utilization` or switching to eager mode."
    )

    assert failures.diagnose(advice) is None


def test_a_healthy_log_has_no_diagnosis():
    log = (
        "(EngineCore pid=7) INFO 11-29 19:30:11 [kv_cache_utils.py:2327] GPU KV cache size: "
        f"817,561 tokens, Maximum concurrency for 32,768 tokens per request: 24.95x\n{STARTED}\n"
    )

    assert failures.diagnose(log) is None


STOPPED = (
    f"{STARTED}\n(APIServer pid=1) INFO 11-29 19:40:00 [launcher.py:99] [shutdown] API server: "
    "shutdown triggered\n(EngineCore pid=7) INFO [shutdown] EngineCore: start mode=abort\n"
    "Worker proc VllmWorker-0 died unexpectedly (exit code: -15), shutting down executor.\n"
)


def test_a_requested_stop_is_told_from_a_crash():
    assert failures.shutdown_requested(STOPPED)
    assert not failures.shutdown_requested(OBSERVED[-2][1])


def test_what_a_requested_stop_prints_is_no_failure():
    assert failures.diagnose(STOPPED) is None


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=217) ERROR 11-29 19:30:11 [core.py:1042] cause",
        "(Worker_TP0 pid=9260) ERROR 12-13 11:54:35 [multiproc_executor.py:826] cause",
        "(RayWorkerWrapper pid=1861983, ip=192.0.2.10) INFO 03-27 10:29:03 [worker.py:2] cause",
        "2026-11-29T19:30:11.123456789Z (EngineCore_DP0 pid=7) cause",
        "[rank0]: cause",
        "\x1b[1;36m(EngineCore pid=7)\x1b[0;0m cause",
        "cause",
    ],
)
def test_what_stands_before_a_line_is_taken_off(line):
    assert failures.clean(line) == "cause"


def test_a_long_log_is_read_quickly_enough_for_a_reconcile():
    line = "(EngineCore pid=7) INFO 11-29 19:30:11 [loggers.py:1] Engine 000: Running: 3 reqs\n"
    log = line * 5000 + OOM + "\n" + TEARDOWN

    assert failures.diagnose(log).reason is Reason.CUDA_OOM_AT_LOAD


def test_every_signature_fills_its_message_and_has_a_documented_reason():
    for row in package_data.load("failures.json")["signatures"]:
        groups = set(re.compile(row["pattern"]).groupindex)
        wanted = {name for _, name, _, _ in Formatter().parse(row["message"]) if name}
        assert wanted <= groups, row["name"]
        assert Reason(row["reason"]) in EXPLANATIONS


def test_a_line_without_end_is_read_to_the_end_too():
    log = "x" * 300_000 + "\nValueError: No available memory for the cache blocks. Try increasing"

    assert failures.diagnose(log).reason == Reason.KV_CACHE_TOO_SMALL
