"""Tools from PyPI that only a bench needs, each in an environment of its own in the cache."""

import subprocess
import sys
from pathlib import Path

from bench.gate_cost import CACHE

INSTALL_SECONDS = 300.0


def tool(name: str, requirement: str, program: str) -> Path | str:
    """Return a program of the environment `name`, made if it is not there, or why it is not."""
    venv = CACHE / name
    path = venv / "bin" / program
    if path.exists() and _has(venv, requirement):
        return path
    uv = str(Path(sys.executable).parent / "uv")
    python = str(venv / "bin" / "python")
    for command in (
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(venv)],
        [uv, "pip", "install", "--quiet", "--python", python, requirement],
    ):
        try:
            subprocess.run(
                command, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except subprocess.CalledProcessError as error:
            return f"{requirement} could not be installed: {error.stderr.strip()[-300:]}"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{requirement} could not be installed: {error}"
    return path


def _has(venv: Path, requirement: str) -> bool:
    package, version = requirement.split("==")
    stem = package.replace("-", "_")
    return any(venv.glob(f"lib/python*/site-packages/{stem}-{version}.dist-info"))
