"""The command as the tests run it: in a process of its own."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"
A100 = "NVIDIA-A100-SXM4-80GB"
H100 = "NVIDIA-H100-80GB-HBM3"
L40S = "NVIDIA-L40S"


def run(*arguments, stdin=None):
    """Return exit code, output and errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr
