"""Engines for the bench: doubles with the speed of a small engine, or real vLLM on this CPU."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.double.process import Double
from e2e.engine import metrics, serve, tiny_model

from bench.goodput.mixes import MAX_MODEL_LEN

KV_BYTES = 8 * 2**20
KV_BYTES_PER_TOKEN = 1024
"""Of the tiny model `gqa`."""
BLOCK_TOKENS = 32
MAX_NUM_SEQS = 128
SPEED = {
    "DOUBLE_STEP_SECONDS": "0.028",
    "DOUBLE_SEQUENCE_SECONDS": "0.0006",
    "DOUBLE_PREFILL_TOKENS_PER_SECOND": "2700",
}
"""Measured on vLLM 0.32 with the tiny model on two cores."""
IDLE_SECONDS = 60.0


def kv_blocks(kv_times: int) -> int:
    """Return the blocks that requests may take; one is the engine's own."""
    return kv_times * KV_BYTES // KV_BYTES_PER_TOKEN // BLOCK_TOKENS - 1


def flags(kv_times: int, max_queued: int | None) -> list[str]:
    """Return the engine's flags; `max_queued` is vLLM's own limit."""
    given = {
        "--served-model-name": "tiny",
        "--dtype": "bfloat16",
        "--block-size": BLOCK_TOKENS,
        "--kv-cache-memory-bytes": kv_times * KV_BYTES,
        "--max-model-len": MAX_MODEL_LEN,
        "--max-num-seqs": MAX_NUM_SEQS,
        "--max-num-batched-tokens": 2048,
    }
    if max_queued is not None:
        given["--max-num-queued-reqs"] = max_queued
    words = [str(word) for pair in given.items() for word in pair]
    return [*words, "--no-enable-prefix-caching", "--enforce-eager"]


@contextmanager
def engine(kind: str, place: Path, kv_times: int, max_queued: int | None = None) -> Iterator[str]:
    """Run an engine of a kind, `double` or `vllm`; yield its URL."""
    model = place / "model"
    if not model.exists():
        tiny_model.write_model(model, "gqa")
    told = flags(kv_times, max_queued)
    if kind == "double":
        with Double(model, *told, environment=SPEED) as double:
            yield double.wait_healthy().url
    else:
        folder = place / f"engine-{kv_times}-{max_queued}"
        folder.mkdir(exist_ok=True)
        with serve.serving(model, told, folder=folder) as server:
            yield server.url


def preemptions(url: str) -> int:
    """Return how often the engine threw a request out, ever."""
    return int(metrics.scrape(url).value("vllm:num_preemptions_total") or 0)


async def until_idle(url: str) -> None:
    """Wait until nothing runs or waits.

    Raises:
        TimeoutError: something did for `IDLE_SECONDS`.
    """
    deadline = time.monotonic() + IDLE_SECONDS
    while time.monotonic() < deadline:
        told = await asyncio.to_thread(metrics.scrape, url)
        states: Sequence[float | None] = [
            told.value(f"vllm:num_requests_{state}") for state in ("running", "waiting")
        ]
        if not any(states):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"{url} is not idle {IDLE_SECONDS:.0f} s after its clients left")
