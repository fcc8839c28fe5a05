"""How many KV blocks the engine gets, by the rules of vLLM."""

from __future__ import annotations

import math
from dataclasses import dataclass

from e2e.double.errors import engine_failed
from e2e.double.model import ELEMENT_BYTES, Model
from e2e.double.settings import GIB

FULL_WIDTH = ("auto", "bfloat16", "float16")
ONE_BYTE = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
NO_MEMORY = (
    "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
    "initializing the engine (this flag also controls CPU memory reservation on the CPU backend, "
    "despite its name). See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for "
    "more details."
)
SCALE_BYTES = 8  # two float32 scales a token and head


@dataclass(frozen=True)
class Memory:
    """The device memory that a start finds.

    Attributes:
        total_bytes: of one device.
        free_bytes: before the start.
        non_kv_bytes: what the engine itself takes for everything but KV.
    """

    total_bytes: int
    free_bytes: int
    non_kv_bytes: int


@dataclass(frozen=True)
class Wanted:
    """What the flags say about the pool."""

    utilization: float = 0.92
    kv_bytes: int | None = None
    blocks_override: int | None = None
    block_tokens: int = 16
    max_model_len: int = 4096
    is_auto_fit: bool = False


@dataclass(frozen=True)
class Pool:
    """The pool that the engine gets.

    Attributes:
        available_bytes: memory given to it.
        block_count: blocks, the null block included.
        max_model_len: the limit, shortened if it was to be fitted.
    """

    available_bytes: int
    block_bytes: int
    block_tokens: int
    block_count: int
    max_model_len: int

    @property
    def max_concurrency(self) -> float:
        """How many sequences of max_model_len fit, as vLLM states it (null block included)."""
        return self.block_count / -(-self.max_model_len // self.block_tokens)

    @property
    def size_tokens(self) -> int:
        """Tokens of the pool, as vLLM states it."""
        return int(self.max_concurrency * self.max_model_len)


def token_bytes(model: Model, dtype: str, *, tensor_parallel: int, pipeline_parallel: int) -> int:
    """Return the KV bytes of one token on one GPU, of the pipeline stage with most layers."""
    heads = max(1, model.kv_heads // tensor_parallel)
    layers = -(-model.layers // pipeline_parallel)
    plain = _head_bytes("auto", model)
    if dtype.startswith(("turboquant", "ultraquant")):
        full = min(layers, 4)  # the first and last two layers keep the model's own type
        return heads * (full * plain + (layers - full) * _head_bytes(dtype, model))
    return heads * layers * _head_bytes(dtype, model)


def plan(wanted: Wanted, memory: Memory, bytes_per_token: int, device: str) -> Pool:
    """Size the pool.

    Raises:
        StartFailed: the device is not free enough, or the pool cannot hold one sequence.
    """
    available = _available(wanted, memory, device)
    block_bytes = bytes_per_token * wanted.block_tokens
    if available <= 0:
        raise engine_failed("ValueError", NO_MEMORY)
    count = wanted.blocks_override or available // block_bytes
    usable_tokens = max(0, count - 1) * wanted.block_tokens
    length = wanted.max_model_len
    if wanted.is_auto_fit and 0 < usable_tokens < length:
        length = usable_tokens
    needed_blocks = -(-length // wanted.block_tokens)
    if needed_blocks > count - 1:
        raise engine_failed(
            "ValueError", too_small(length, needed_blocks * block_bytes, available, usable_tokens)
        )
    return Pool(available, block_bytes, wanted.block_tokens, count, length)


def told(wanted: Wanted, memory: Memory, pool: Pool, device: str) -> list[tuple[str, str]]:
    """Return what vLLM logs of the division: the source line that prints, and the message.

    All that is not KV counts as weights: the double has no activations and no graphs.
    """
    if device == "cpu":
        how = "Auto set" if wanted.kv_bytes is None else "Explicitly set"
        sizes = f"{gib(pool.available_bytes)}/{gib(memory.total_bytes)}"
        return [("cpu_worker.py:260", f"{how} ({sizes}) GiB for KV cache on node 0.")]
    if wanted.kv_bytes is not None:
        return [
            (
                "gpu_worker.py:657",
                f"Initial free memory {gib(memory.free_bytes)} GiB, reserved "
                f"{gib(wanted.kv_bytes)} GiB memory for KV Cache as specified by "
                "kv_cache_memory_bytes config and skipped memory profiling. This does not respect "
                "the gpu_memory_utilization config.",
            )
        ]
    requested = gib(memory.total_bytes * wanted.utilization)
    return [
        ("gpu_worker.py:759", f"Available KV cache memory: {gib(pool.available_bytes)} GiB"),
        (
            "gpu_worker.py:1012",
            f"Free memory on device ({gib(memory.free_bytes)}/{gib(memory.total_bytes)} GiB) on "
            f"startup. Desired GPU memory utilization is ({wanted.utilization}, {requested} GiB). "
            f"Actual usage is {gib(memory.non_kv_bytes)} GiB for consumed memory (weights + "
            "non-torch), 0.0 GiB for peak activation, and 0.0 GiB for CUDAGraph memory. Replace "
            "gpu_memory_utilization config with `--kv-cache-memory="
            f"{pool.available_bytes}` ({gib(pool.available_bytes)} GiB) to fit into requested "
            f"memory. Current kv cache memory in use is {gib(pool.available_bytes)} GiB.",
        ),
    ]


def gib(count: float) -> str:
    """Write bytes as vLLM does: GiB with at most two decimals."""
    return str(round(count / GIB, 2))


def _available(wanted: Wanted, memory: Memory, device: str) -> int:
    if wanted.kv_bytes is not None:
        return wanted.kv_bytes
    requested = math.ceil(memory.total_bytes * wanted.utilization)
    if memory.free_bytes < requested:
        raise engine_failed("ValueError", not_free(memory, wanted.utilization, device))
    return requested - memory.non_kv_bytes


def not_free(memory: Memory, utilization: float, device: str) -> str:
    """Return the message of a device that another process uses."""
    share = (
        f"({gib(memory.free_bytes)}/{gib(memory.total_bytes)} GiB) on startup is less than desired"
    )
    wanted = f"({utilization}, {gib(memory.total_bytes * utilization)} GiB)"
    if device == "cpu":
        return f"Available memory on node 0 {share} CPU memory utilization {wanted}."
    return (
        f"Free memory on device cuda:0 {share} GPU memory utilization {wanted}. Decrease GPU "
        "memory utilization or reduce GPU memory used by other processes."
    )


def too_small(length: int, needed: int, available: int, possible: int) -> str:
    """Return the message of a pool that cannot hold one sequence.

    Args:
        length: max_model_len in tokens.
        needed: bytes of KV for it.
        available: bytes of the pool.
        possible: tokens that would fit.
    """
    hint = f"Based on the available memory, the estimated maximum model length is {possible}. "
    return (
        f"To serve at least one request with the model's max seq len ({length}), "
        f"({gib(needed)} GiB KV cache is needed, which is larger than the available KV cache "
        f"memory ({gib(available)} GiB). {hint if possible > 0 else ''}Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
        "decreasing `max_model_len` when initializing the engine. See https://docs.vllm.ai/en/latest/"
        "configuration/conserving_memory/ for more details."
    )


def _head_bytes(dtype: str, model: Model) -> int:
    """Return the bytes of one token, layer and KV head."""
    size = model.head_dim
    if dtype in FULL_WIDTH:
        return 2 * size * (ELEMENT_BYTES.get(model.dtype, 2) if dtype == "auto" else 2)
    if dtype in ONE_BYTE:
        return 2 * size
    match dtype:
        case "int8_per_token_head" | "fp8_per_token_head":
            return 2 * size + SCALE_BYTES
        case "int4_per_token_head":
            return size + SCALE_BYTES
        case "nvfp4" | "nvfp4_4over6":
            return 2 * (size // 2 + size // 16)
        case "ultraquant_4bit":
            return size + 2 * size // 32
        case "turboquant_k8v4":
            return _even(size + _packed(size, 4) + 4)
        case "turboquant_4bit_nc":
            return _even(_packed(size, 4) + 2 + _packed(size, 4) + 4)
        case "turboquant_k3v4_nc":
            return _even(_packed(size, 3) + 2 + _packed(size, 4) + 4)
        case "turboquant_3bit_nc":
            return _even(_packed(size, 3) + 2 + _packed(size, 3) + 4)
    raise engine_failed("NotImplementedError", f"the double does not size kv_cache_dtype {dtype!r}")


def _packed(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)


def _even(count: int) -> int:
    return count + count % 2
