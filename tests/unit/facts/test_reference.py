"""The reference pages show what the catalogues hold."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "facts" / "reference.py"


def test_the_pages_are_those_that_the_catalogues_make():
    done = subprocess.run(
        [sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
