"""The engine's metrics as Prometheus gets them: true, or wrong in one of the ways of the field."""

import re
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Literal, Self

from tests.shell.prometheus_server import LoopbackServer

Lie = Literal["", "nan", "stuck", "old"]
OLD_SECONDS = 300
_USAGE = re.compile(r"^(vllm:kv_cache_usage_perc(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


class LyingEngine:
    """Passes an engine's `/metrics` on; a context manager.

    Attributes:
        lie: How the use of the KV cache is told from now on: not at all a number (`nan`), as it
            was when the lie began (`stuck`), or with the time of five minutes ago (`old`).
    """

    def __init__(self, engine: str) -> None:
        self.lie: Lie = ""
        self._engine = engine
        self._last = "0"
        self._server = LoopbackServer(self._get)
        self.port = self._server.port

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.__exit__(*exception)

    def _get(self, handler: BaseHTTPRequestHandler) -> None:
        with urllib.request.urlopen(f"{self._engine}/metrics", timeout=5) as answer:
            body = answer.read().decode()
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain; version=0.0.4")
        handler.end_headers()
        handler.wfile.write(_USAGE.sub(self._told(), body).encode())

    def _told(self) -> Callable[[re.Match[str]], str]:
        """Return what becomes of the line with the use of the KV cache."""

        def told(found: re.Match[str]) -> str:
            series, value = found.groups()
            if self.lie == "nan":
                return f"{series} NaN"
            if self.lie == "stuck":
                return f"{series} {self._last}"
            self._last = value
            if self.lie == "old":
                return f"{series} {value} {round((time.time() - OLD_SECONDS) * 1000)}"
            return found.group()

        return told
