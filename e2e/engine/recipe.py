"""Names the real engine that the tests run: its version, the files that define it, where it lies.

An installation is found by the hash of everything that shapes it, so a changed pin gives a new
folder and never a half-updated old one. It lies outside the checkout, in the user's cache.

Standard library only: this is used before any environment exists.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
    """Return the folder for what is costly to make: TIDEGATE_CACHE, or one in the user's cache."""
    chosen = os.environ.get("TIDEGATE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tidegate"


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


def environment(engine: Installation) -> dict[str, str]:
    """Return the environment that an engine needs on a small machine without a network.

    The same names are baked into the image, with its own paths. Sources: threads are not bound
    because two engines would be bound to the same core; UCX is told to use TCP alone because it
    probes for fabrics otherwise; the offline names keep it from asking a model hub.
    """
    return {
        "PYTHONPATH": f"{SITE}:{engine.nixl}",
        "LD_PRELOAD": str(engine.poll_shim),
        **SMALL_MACHINE,
    }


SMALL_MACHINE = {
    "UCX_TLS": "tcp,self",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
