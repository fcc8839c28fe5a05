"""Runs a real engine on loopback, and ends it.

    python3 -m e2e.engine.serve [--port 8000] [--arch gqa] [-- MORE VLLM FLAGS]

An engine needs 45 s to start on two quiet cores and 140 s on busy ones, and 1.5 GB of memory.
Standard library only.
"""

import argparse
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from e2e.engine import install, recipe, tiny_model

START_SECONDS = 300.0
STOP_SECONDS = 60.0

# What the operator renders for a unified pool on CPUs, so that runs by hand are like a pod's.
UNIFIED_FLAGS = (
    *("--served-model-name", "tiny"),
    *("--dtype", "bfloat16"),
    *("--kv-cache-dtype", "auto"),
    *("--block-size", "32"),
    *("--kv-cache-memory-bytes", str(8 * 2**20)),
    *("--max-model-len", "2048"),
    *("--max-num-seqs", "8"),
    *("--max-num-batched-tokens", "2048"),
    "--enable-chunked-prefill",
    "--enable-prefix-caching",
    *("--tensor-parallel-size", "1"),
    *("--pipeline-parallel-size", "1"),
    *("--shutdown-timeout", "120"),
    "--enforce-eager",
)


class EngineFailed(Exception):
    """The engine ended or was not ready in time; the message holds the end of its log."""


@dataclass(frozen=True)
class Server:
    """A running engine."""

    url: str
    pid: int
    log: Path


@contextmanager
def serving(
    model: Path,
    flags: Sequence[str] = UNIFIED_FLAGS,
    *,
    folder: Path,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Start an engine, yield it once it is healthy, end it on the way out.

    Args:
        model: a checkpoint folder, see `tiny_model`.
        flags: what follows `vllm serve MODEL`, without host and port.
        folder: takes the log, and the sockets and temporary files that vLLM leaves behind.
        port: where to listen on loopback; a free one if not given.
        env: added to `recipe.environment`, for instance the side channel of KV transfer.

    Raises:
        EngineFailed: it ended, or was not healthy within `START_SECONDS`.
    """
    port = port or free_port()
    log = folder / "engine.log"
    with log.open("wb") as output:
        process = _start(model, [*flags, "--port", str(port)], folder, output, env or {})
    try:
        server = Server(f"http://127.0.0.1:{port}", process.pid, log)
        _wait_until_healthy(server, process)
        yield server
    finally:
        _stop(process)


def free_port() -> int:
    """Return a port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(
    model: Path, flags: Sequence[str], folder: Path, output: IO[bytes], env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    engine = install.install()
    cache = (
        recipe.cache() / "vllm"
    )  # keeps what vLLM finds out about a model: 9 s of the next start
    return subprocess.Popen(
        [str(engine.venv / "bin" / "vllm"), "serve", str(model), "--host", "127.0.0.1", *flags],
        env={
            **os.environ,
            **recipe.environment(engine.home, recipe.SITE),
            "TMPDIR": str(folder),
            "VLLM_RPC_BASE_PATH": str(folder),
            "VLLM_CACHE_ROOT": str(cache),
            **env,
        },
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # the workers share the group, so none is left behind
    )


def _wait_until_healthy(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _is_healthy(server.url):
            return
        time.sleep(0.5)
    code = process.poll()
    why = f"not healthy after {START_SECONDS:.0f} s" if code is None else f"ended with code {code}"
    tail = server.log.read_text(errors="replace").splitlines()[-40:]
    raise EngineFailed("\n".join([f"the engine is {why}; the end of {server.log}:", *tail]))


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # workers that outlived the server


def main() -> None:
    """Serve a tiny model until interrupted."""
    parser = argparse.ArgumentParser(description="Serve a tiny model with the real engine.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--arch", choices=tiny_model.ARCHS, default="gqa")
    parser.add_argument("flags", nargs="*", help="more flags of vllm serve, after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engine-") as scratch:
        folder = Path(scratch)
        model = tiny_model.write_model(folder / "model", arguments.arch)
        flags = [*UNIFIED_FLAGS, *arguments.flags]
        print(f"starting; log: {folder / 'engine.log'}", flush=True)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with (
            suppress(KeyboardInterrupt),
            serving(model, flags, folder=folder, port=arguments.port) as server,
        ):
            print(f"{server.url} serves the model tiny; interrupt to end", flush=True)
            signal.pause()


if __name__ == "__main__":
    main()
