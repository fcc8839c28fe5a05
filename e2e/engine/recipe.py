"""Names the real engine that the tests run: its version, the files that define it, where it lies.

An installation is found by the hash of everything that shapes it, so a changed pin gives a new
folder and never a half-updated old one. It lies outside the checkout, in the user's cache.

Standard library only: this is used before any environment exists.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import Settings

VERSION = "0.32.0"
TORCH_VERSION = "2.13.0"

HERE = Path(__file__).parent
ENGINE_LOCK = HERE / "engine.lock"
NIXL_LOCK = HERE / "nixl.lock"
TOOLS_LOCK = HERE / "tools.lock"
POLL_SHIM_SOURCE = HERE / "pollshim.c"
SITE = HERE / "pysite"

_DEFINED_BY = (
    ENGINE_LOCK,
    NIXL_LOCK,
    TOOLS_LOCK,
    POLL_SHIM_SOURCE,
    HERE / "cuda_stubs.py",
    HERE / "elf.py",
    HERE / "install.py",
)


@dataclass(frozen=True)
class Installation:
    """The folders of one installed engine."""

    home: Path

    @property
    def venv(self) -> Path:
        """The virtual environment with vLLM and torch."""
        return self.home / "venv"

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.venv / "bin" / "python3"

    @property
    def packages(self) -> Path:
        """The environment's site-packages."""
        return self.venv / "lib" / "python3.11" / "site-packages"

    @property
    def nixl(self) -> Path:
        """The folder to put on PYTHONPATH for KV transfer."""
        return self.home / "nixl"

    @property
    def poll_shim(self) -> Path:
        """The library to preload so that idle KV transfer leaves the CPU alone."""
        return self.home / "libpollshim.so"

    @property
    def stamp(self) -> Path:
        """The file whose presence says that the installation is whole."""
        return self.home / "complete"


def cache() -> Path:
    """Return the folder for what is costly to make, the one that the cluster uses too."""
    return Settings.from_environment().cache


def installation() -> Installation:
    """Return where the engine of this checkout lies, installed or not."""
    return Installation(cache() / "engine" / digest(_DEFINED_BY))


def digest(paths: Iterable[Path], *more: str) -> str:
    """Return a short hash of the names and contents of files, and of other texts that matter."""
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    for text in more:
        total.update(f"{len(text)}\0{text}".encode())
    return total.hexdigest()[:16]


SMALL_MACHINE = {
    "UCX_TLS": "tcp,self",  # else UCX probes for fabrics that are not there
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # two engines would be bound to the same core
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What an engine needs in its environment on few cores and without a network."""


def environment(home: Path, site: Path) -> dict[str, str]:
    """Return the environment of an engine whose parts lie in `home`, here or in an image.

    Args:
        home: the folder of an installation.
        site: the folder with our `sitecustomize`.
    """
    engine = Installation(home)
    return {
        "PYTHONPATH": f"{site}:{engine.nixl}",
        "LD_PRELOAD": str(engine.poll_shim),
        **SMALL_MACHINE,
    }
