"""Doubles as processes on this machine, for tests: started on a free port, ended by their pid."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
FAST = {"DOUBLE_STEP_SECONDS": "0.002", "DOUBLE_PREFILL_TOKENS_PER_SECOND": "1000000"}


class Double:
    """A running double; a context manager that ends it.

    Args:
        model: folder of the model.
        flags: arguments of `vllm serve` after the model; host and port are added.
        environment: variables over those of this process and the fast defaults.
        version: the vLLM version to speak for.
    """

    def __init__(
        self,
        model: Path | str,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        version: str = "0.32.0",
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by __exit__
        kept = {key: value for key, value in os.environ.items() if not key.startswith("DOUBLE_")}
        world = {"PYTHONPATH": str(ROOT), "DOUBLE_VLLM_VERSION": version, **FAST}
        place = ("--host", "127.0.0.1", "--port", str(self.port))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "e2e.double", "serve", str(model), *place, *flags],
            env={**kept, **world, **(environment or {})},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Double:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()

    @property
    def output(self) -> str:
        """All that it printed so far, both streams in order."""
        self._log.flush()
        self._log.seek(0)
        return self._log.read()

    def health(self) -> int:
        """Return the status of `/health`; 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def wait_healthy(self) -> Double:
        """Wait until it serves.

        Raises:
            RuntimeError: it ended, or took too long; with its output.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.health() == 200:
                return self
            time.sleep(0.02)
        raise RuntimeError(f"the double did not get healthy:\n{self.output}")

    def wait(self, seconds: float = START_SECONDS) -> int:
        """Return the exit code when it ended by itself."""
        return self.process.wait(seconds)


def free_port() -> int:
    """Return a TCP port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
