"""A real Prometheus on loopback, and small exposition servers for it to scrape.

`scripts/cluster build prometheus` builds it; no cluster is needed.
"""

import json
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from e2e.cluster import binaries
from e2e.cluster.settings import Settings
from e2e.double.process import free_port

START_SECONDS = 60.0


def program(name: str) -> Path:
    """Return the path of `prometheus` or `promtool`.

    Raises:
        FileNotFoundError: It is not built; the message says how.
    """
    path = binaries.folder(Settings.from_environment(), "prometheus") / name
    if not path.exists():
        raise FileNotFoundError(f"no {name}: run `scripts/cluster build prometheus`")
    return path


@dataclass(frozen=True)
class Target:
    """What is scraped: a port of this machine, and the labels that a discovery would give it."""

    job: str
    port: int
    labels: Mapping[str, str] = field(default_factory=dict)


class Exposition:
    """Serves a text as `/metrics`; each scrape gets what `text` is then, None fails it."""

    def __init__(self, text: str | None = "") -> None:
        self.text = text
        self.scrapes = 0

        def get(handler: BaseHTTPRequestHandler) -> None:
            self.scrapes += 1
            handler.send_response(200 if self.text is not None else 500)
            handler.send_header("Content-Type", "text/plain; version=0.0.4")
            handler.end_headers()
            handler.wfile.write((self.text or "").encode())

        self._server = LoopbackServer(get)
        self.port = self._server.port

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.__exit__(*exception)


class LoopbackServer:
    """An HTTP server on a free port, with one function for every GET."""

    def __init__(self, get: Callable[[BaseHTTPRequestHandler], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that http.server calls
                try:
                    get(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client had enough

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class PrometheusServer:
    """A running Prometheus; a context manager that ends it.

    Args:
        targets: What it scrapes; gates with `honor_labels`, as our scrape configuration has it.
        scrape_seconds: How often.
        rule_files: Rules that it loads.
    """

    def __init__(
        self,
        targets: Sequence[Target] = (),
        scrape_seconds: float = 1.0,
        rule_files: Sequence[Path] = (),
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="prometheus-")
        self._configuration = Path(self._folder.name, "prometheus.yml")
        self._scrape_milliseconds = round(scrape_seconds * 1000)
        self._rule_files = [str(path.resolve()) for path in rule_files]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._write(targets)
        self._log = Path(self._folder.name, "log").open("w+")  # noqa: SIM115  # closed by __exit__
        self.process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={self._configuration}",
                f"--storage.tsdb.path={self._folder.name}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--web.enable-lifecycle",
                "--log.level=warn",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        try:
            self.wait_for(lambda: self._get("/-/ready") is not None, "to be ready")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        self._log.close()
        self._folder.cleanup()

    def scrape(self, targets: Sequence[Target]) -> None:
        """Scrape these from now on, and no others."""
        self._write(targets)
        request = urllib.request.Request(f"{self.url}/-/reload", method="POST")
        urllib.request.urlopen(request, timeout=20).close()

    def query(self, promql: str) -> list[dict[str, Any]]:
        """Return the result of an instant query."""
        answer = self._get(f"/api/v1/query?{urllib.parse.urlencode({'query': promql})}")
        assert answer is not None, "Prometheus gave no answer"
        result: list[dict[str, Any]] = json.loads(answer)["data"]["result"]
        return result

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        """Wait until something is so.

        Raises:
            AssertionError: It never is, or Prometheus ended; its log is in the message.
        """
        ends_at = time.monotonic() + START_SECONDS
        while not is_so():
            if self.process.poll() is not None or time.monotonic() > ends_at:
                self._log.seek(0)
                raise AssertionError(f"waited in vain for {what}: {self._log.read()[-2000:]}")
            time.sleep(0.1)

    def wait_for_series(self, promql: str, count: int = 1) -> None:
        """Wait until a query has that many series."""
        self.wait_for(lambda: len(self.query(promql)) == count, f"{count} series of {promql}")

    def _get(self, path: str) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=20) as answer:
                return str(answer.read().decode())
        except OSError:
            return None

    def _write(self, targets: Sequence[Target]) -> None:
        by_job: dict[str, list[dict[str, Any]]] = {}
        for target in targets:
            entry = {"targets": [f"127.0.0.1:{target.port}"], "labels": dict(target.labels)}
            by_job.setdefault(target.job, []).append(entry)
        interval = f"{self._scrape_milliseconds}ms"
        configuration = {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": self._rule_files,
            "scrape_configs": [
                {
                    "job_name": job,
                    "honor_labels": job == "tidegate-gates",
                    "static_configs": entries,
                }
                for job, entries in by_job.items()
            ],
        }
        self._configuration.write_text(yaml.safe_dump(configuration))
