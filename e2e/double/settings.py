"""What the double is told by environment variables: the world that vLLM would find by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

Device = Literal["cuda", "cpu"]
GIB = 2**30


@dataclass(frozen=True)
class Settings:
    """The world around the double.

    Attributes:
        vllm_version: DOUBLE_VLLM_VERSION, whose flags and messages are spoken.
        device: DOUBLE_DEVICE, `cuda` or `cpu` (which has other defaults).
        gpu_memory_bytes: DOUBLE_GPU_MEMORY_BYTES, what CUDA calls the total memory of one GPU.
        gpu_used_bytes: DOUBLE_GPU_USED_BYTES, taken before the start by CUDA or by others.
        non_kv_bytes: DOUBLE_NON_KV_BYTES, weights, activations and graphs of one GPU.
        prefill_tokens_per_second: DOUBLE_PREFILL_TOKENS_PER_SECOND.
        step_seconds: DOUBLE_STEP_SECONDS, every engine step takes it.
        sequence_seconds: DOUBLE_SEQUENCE_SECONDS, added to a step for each sequence in it.
        output_tokens: DOUBLE_OUTPUT_TOKENS, mean length after which a sequence ends by itself;
            absent: only max_tokens and stops end it.
        transfer_bytes_per_second: DOUBLE_TRANSFER_BYTES_PER_SECOND, speed of KV between engines.
        handshake_timeout_seconds: DOUBLE_HANDSHAKE_TIMEOUT_SECONDS, until an unreachable prefill
            engine counts as a failed transfer.
        start_seconds: DOUBLE_START_SECONDS, from the process's start to healthy.
        death_seconds: DOUBLE_DEATH_SECONDS, from the engine's death to the process's end.
        silent_death_seconds: DOUBLE_SILENT_DEATH_SECONDS, the same where the engine's death leaves
            its requests without an answer.
        teardown_seconds: DOUBLE_TEARDOWN_SECONDS, from the last drained request to the end.
        fail: DOUBLE_FAIL, the cause to fail by; empty for none.
        fail_times: DOUBLE_FAIL_TIMES, how many starts fail before one succeeds; absent: all.
        fail_after_seconds: DOUBLE_FAIL_AFTER_SECONDS, for causes that strike while serving.
        fail_state: DOUBLE_FAIL_STATE, file that counts the failed starts of a pod.
        hub: DOUBLE_HUB, folder of what the hub would have: `<namespace>/<name>/config.json`.
    """

    vllm_version: str = "0.32.0"
    device: Device = "cuda"
    gpu_memory_bytes: int = 80 * GIB
    gpu_used_bytes: int = GIB // 2
    non_kv_bytes: int = GIB
    prefill_tokens_per_second: float = 20_000.0
    step_seconds: float = 0.01
    sequence_seconds: float = 0.0
    output_tokens: float | None = None
    transfer_bytes_per_second: float = 10e9
    handshake_timeout_seconds: float = 5.0
    start_seconds: float = 0.0
    death_seconds: float = 4.0
    silent_death_seconds: float = 60.0
    teardown_seconds: float = 4.0
    fail: str = ""
    fail_times: int | None = None
    fail_after_seconds: float = 5.0
    fail_state: Path = Path("/dev/shm/double-failures")
    hub: Path = Path("/models")


def read(environment: Mapping[str, str]) -> Settings:
    """Read the settings.

    Raises:
        ValueError: a variable is unknown or has no such value; the message names it.
    """
    known = {f"DOUBLE_{name.upper()}": name for name in Settings.__dataclass_fields__}
    given: dict[str, object] = {}
    for variable, text in environment.items():
        if not variable.startswith("DOUBLE_") or not text:
            continue
        if variable not in known:
            raise ValueError(f"{variable} is not a setting of the double; known: {sorted(known)}")
        try:
            given[known[variable]] = _reader(known[variable])(text)
        except ValueError as error:
            raise ValueError(f"{variable}={text!r}: {error}") from error
    settings = Settings(**given)  # type: ignore[arg-type]  # each value was read by its field
    if settings.device == "cpu" and "non_kv_bytes" not in given:
        settings = replace(settings, non_kv_bytes=0)
    if settings.prefill_tokens_per_second == 0:
        raise ValueError("DOUBLE_PREFILL_TOKENS_PER_SECOND must be more than 0")
    return settings


def _reader(name: str) -> Callable[[str], object]:
    if name in ("gpu_memory_bytes", "gpu_used_bytes", "non_kv_bytes", "fail_times"):
        return _count
    if name in ("fail_state", "hub"):
        return Path
    if name == "device":
        return _device
    if name in ("vllm_version", "fail"):
        return str
    return _amount


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError("must be 0 or more")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError("must be a finite number of 0 or more")
    return value


def _device(text: str) -> Device:
    if text not in get_args(Device):
        raise ValueError(f"must be one of {get_args(Device)}")
    return cast(Device, text)
