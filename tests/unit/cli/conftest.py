"""A headless browser, installed when it is asked for the first time."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "browser"


@pytest.fixture(scope="session")
def browser():
    """Return the path of a Chromium; where none can be had the test is skipped, but not in CI."""
    found = subprocess.run([SCRIPT], capture_output=True, text=True)
    if found.returncode and not os.environ.get("CI"):
        pytest.skip(f"the page was not looked at in a browser: {found.stderr.strip()}")
    assert found.returncode == 0, found.stderr
    return found.stdout.strip().splitlines()[-1]
