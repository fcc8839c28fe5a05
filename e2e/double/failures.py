"""Failures on demand: each way in which an engine pod can fail, with the texts of the real one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.double import logs, memory
from e2e.double.config import EngineConfig
from e2e.double.errors import StartFailed, engine_failed
from e2e.double.memory import Memory
from e2e.double.settings import GIB, Settings

UNKNOWN_FLAG = "unknown-flag"
HANG = "hang"
OOM_KILL = "oom-kill"
EXIT_ZERO = "exit-zero"
UNHEALTHY = "unhealthy-after"
HANG_LATER = "hang-after"
WHILE_SERVING = (OOM_KILL, EXIT_ZERO, UNHEALTHY, HANG_LATER)
WORKER_DIED = (
    "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."
)
OOM_CODE = 137
# A container limit above this is not filled up to be killed: the machine may not have so much.
LARGEST_FILL_BYTES = 4 * GIB
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

Cause = Callable[[EngineConfig], StartFailed]


def due(settings: Settings) -> str:
    """Return the cause that this start fails by, and count it; empty for none.

    Raises:
        ValueError: there is no such cause.
    """
    if not settings.fail:
        return ""
    known = {UNKNOWN_FLAG, HANG, *WHILE_SERVING, *HUB_CAUSES, *ENGINE_CAUSES}
    if settings.fail not in known:
        raise ValueError(f"DOUBLE_FAIL={settings.fail!r} is not a cause; known: {sorted(known)}")
    if settings.fail_times is None:
        return settings.fail
    done = _count(settings.fail_state)
    if done >= settings.fail_times:
        return ""
    settings.fail_state.write_text(str(done + 1))
    return settings.fail


def raise_hub_failure(
    cause: str, name: str, revision: str | None, environment: Mapping[str, str]
) -> None:
    """Fail as the hub's client does, before the configuration is known."""
    make = HUB_CAUSES.get(cause)
    if make:
        raise make(name, revision or "main", bool(environment.get("HF_TOKEN")))


def raise_engine_failure(cause: str, config: EngineConfig) -> None:
    """Fail as the engine's processes do."""
    make = ENGINE_CAUSES.get(cause)
    if make:
        raise make(config)


def is_after_load(cause: str) -> bool:
    """Tell whether the weights are loaded when a cause strikes."""
    return cause in ("kv-too-small", "no-kv-memory", "cuda-oom-capture")


def run_out_of_memory() -> None:
    """Be killed by the kernel at the container's memory limit; without one, end with its code."""
    limit = next((value for path in LIMIT_FILES if (value := _limit(path)) is not None), None)
    filled: list[bytearray] = []
    if limit is not None and limit <= LARGEST_FILL_BYTES:
        for _ in range(limit // 2**24 + 8):
            filled.append(bytearray(b"\1" * 2**24))
    os._exit(OOM_CODE)


def _limit(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):  # no such control group, or "max"
        return None


def _count(path: Path) -> int:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return 0


# --- the hub


def _model_not_found(name: str, revision: str, has_token: bool) -> StartFailed:
    return StartFailed(
        "APIServer",
        "OSError",
        f"{name} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a "
        "token having permission to this repo either by logging in with `hf auth login` or by "
        "passing `token=<your_token>`",
    )


def _revision_not_found(name: str, revision: str, has_token: bool) -> StartFailed:
    return StartFailed(
        "APIServer",
        "OSError",
        f"{revision} is not a valid git identifier (branch name, tag name or commit id) that "
        "exists for this model name. Check the model page at "
        f"'https://huggingface.co/{name}' for available revisions.",
    )


def _gated(name: str, revision: str, has_token: bool) -> StartFailed:
    page = f"https://huggingface.co/{name}"
    if has_token:
        status = 403
        reason = f" and you are not in the authorized list. Visit {page} to ask for access."
    else:
        status = 401
        reason = ". You must have access to it and be authenticated to access it. Please log in."
    return StartFailed(
        "APIServer",
        "OSError",
        f"You are trying to access a gated repo.\nMake sure to have access to it at {page}.\n"
        f"{status} Client Error. (Request ID: Root=1-0-0;0)\n\n"
        f"Cannot access gated repo for url {page}/resolve/{revision}/config.json.\n"
        f"Access to model {name} is restricted{reason}",
    )


HUB_CAUSES: dict[str, Callable[[str, str, bool], StartFailed]] = {
    "model-not-found": _model_not_found,
    "revision-not-found": _revision_not_found,
    "gated-model": _gated,
}

# --- the engine


def _kv_too_small(config: EngineConfig) -> StartFailed:
    block = config.token_bytes * config.wanted.block_tokens
    blocks = max(2, config.limits.max_model_len // config.wanted.block_tokens // 2)
    message = memory.too_small(
        config.limits.max_model_len,
        config.limits.max_model_len * config.token_bytes,
        blocks * block,
        (blocks - 1) * config.wanted.block_tokens,
    )
    return engine_failed("ValueError", message)


def _no_kv_memory(config: EngineConfig) -> StartFailed:
    return engine_failed("ValueError", memory.NO_MEMORY)


def _out_of_memory(config: EngineConfig) -> StartFailed:
    total = config.settings.gpu_memory_bytes
    used = total - 11 * 2**20
    return engine_failed(
        "torch.OutOfMemoryError",
        f"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of "
        f"{total / GIB:.2f} GiB of which 11.00 MiB is free. Including non-PyTorch memory, this "
        f"process has {used / GIB:.2f} GiB memory in use. Of the allocated memory "
        f"{used * 0.98 / GIB:.2f} GiB is allocated by PyTorch, and 97.65 MiB is reserved by "
        "PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
        "for Memory Management  "
        "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
        process="Worker",
    )


def _out_of_memory_at_capture(config: EngineConfig) -> StartFailed:
    logs.info(
        "gpu_model_runner.py:5560",
        "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE)",
        process="Worker",
    )
    return _out_of_memory(config)


def _gpu_busy(config: EngineConfig) -> StartFailed:
    total = config.settings.gpu_memory_bytes
    left = Memory(total, int(total * 0.12), 0)
    utilization = config.wanted.utilization
    return engine_failed("ValueError", memory.not_free(left, utilization, "cuda"), process="Worker")


def _shm_too_small(config: EngineConfig) -> StartFailed:
    return engine_failed(
        "RuntimeError",
        "Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 64 MiB "
        "free. Increase /dev/shm (e.g. --shm-size or --ipc=host).",
    )


def _nixl_missing(config: EngineConfig) -> StartFailed:
    return engine_failed("RuntimeError", "Worker failed with error 'NIXL is not available'")


ENGINE_CAUSES: dict[str, Cause] = {
    "kv-too-small": _kv_too_small,
    "no-kv-memory": _no_kv_memory,
    "cuda-oom-load": _out_of_memory,
    "cuda-oom-capture": _out_of_memory_at_capture,
    "gpu-busy": _gpu_busy,
    "shm-too-small": _shm_too_small,
    "nixl-missing": _nixl_missing,
}
