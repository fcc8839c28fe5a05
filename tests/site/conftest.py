"""The built site, served on loopback, and a browser that looks at it."""

import functools
import http.server
import os
import subprocess
import threading
from pathlib import Path

import pytest
from tests.unit.cli.conftest import browser

__all__ = ["browser"]

TOP = Path(__file__).resolve().parents[2]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        """Say nothing: pytest shows what matters."""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the site as scripts/docs builds it: every link in it leads somewhere."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [TOP / "scripts" / "docs", "--site-dir", folder], capture_output=True, text=True
    )
    is_installed = (TOP / ".venv-docs" / ".current").exists()
    if done.returncode and not is_installed and not os.environ.get("CI"):
        pytest.skip(f"MkDocs cannot be installed here: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def address(site):
    """Where the site is served."""
    handler = functools.partial(_Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
