"""A headless browser, installed when it is asked for the first time."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "browser"


@pytest.fixture(scope="session")
def browser():
    """Return the path of a Chromium; its installation needs root."""
    found = subprocess.run([SCRIPT], capture_output=True, text=True)
    if found.returncode and os.geteuid() != 0:
        pytest.skip("no Chromium here, and installing one needs root: scripts/browser")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip().splitlines()[-1]
