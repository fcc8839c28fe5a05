"""Stands in for the CUDA libraries that PyPI's torch links to, on a machine without a GPU.

torch for x86_64 on PyPI is the CUDA build. Its libraries name libcudart, libcublas and a dozen more
as needed, so the loader refuses them without 4 GB of NVIDIA packages. A stub with the same name,
symbols and symbol versions satisfies the loader. Every function of a stub returns an error: torch
then finds no device and works on the CPU.

Standard library only; needs gcc, nm and readelf.
"""

import re
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

NO_DEVICE = 100  # cudaErrorNoDevice
FAILURE = 1

_TORCH_LIBRARY = re.compile(r"lib(torch|c10|shm\.so|caffe2)")
_CUDA_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
_SYSTEM_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OMP)_")
_RETURNS_TEXT = re.compile(r"(String|ErrorName)$")

# Opened by torch itself and only to reach a real driver, so what it needs does not matter.
_OPENED_LATE = "libcaffe2_nvrtc.so"

# Libraries whose symbols carry no version: the symbol's own prefix tells which one it is from.
_LIBRARY_OF_PREFIX = {
    "nccl": "libnccl",
    "cuFile": "libcufile",
    "cusparseLt": "libcusparseLt",
    "curand": "libcurand",
    "nvshmem": "libnvshmem_host",
}


@dataclass(frozen=True)
class Stub:
    """A library to make: its name, the version of its symbols ("" for none), its functions."""

    soname: str
    version: str
    functions: tuple[str, ...]


def write_stubs(folder: Path) -> list[Stub]:
    """Compile into torch's library folder every CUDA library that its files need and lack."""
    stubs = missing_libraries(folder)
    for stub in stubs:
        _compile(stub, folder)
    return stubs


def missing_libraries(folder: Path) -> list[Stub]:
    """Read which CUDA libraries, and which symbols of each, the files of a folder ask for."""
    libraries = sorted(
        path
        for path in folder.iterdir()
        if _TORCH_LIBRARY.match(path.name) and ".so" in path.name and path.name != _OPENED_LATE
    )
    needed = {name for path in libraries for name in _needed(path)}
    needed -= {path.name for path in libraries}
    defined: set[str] = set()
    wanted: dict[str, str] = {}
    for path in libraries:
        defined.update(_symbols(path, "--defined-only"))
        wanted.update(_symbols(path, "--undefined-only"))
    return assign({name: wanted[name] for name in wanted.keys() - defined}, needed)


def assign(wanted: dict[str, str], needed: set[str]) -> list[Stub]:
    """Return one stub for each needed library; `wanted` maps a symbol to its version."""
    functions: dict[str, set[str]] = defaultdict(set)
    versions: dict[str, str] = {}
    for name, version in wanted.items():
        library = None if _SYSTEM_VERSION.match(version) else _library_of(name, version, needed)
        if library is not None:
            functions[library].add(name)
            versions[library] = version or versions.get(library, "")
    return [
        Stub(library, versions.get(library, ""), tuple(sorted(functions[library])))
        for library in sorted(needed)
    ]


def assembly(stub: Stub) -> str:
    """Return the x86_64 source of a stub: two bodies, one for text and one for a status."""
    text = [name for name in stub.functions if _RETURNS_TEXT.search(name)]
    status = [name for name in stub.functions if not _RETURNS_TEXT.search(name)]
    code = NO_DEVICE if stub.soname.startswith("libcudart") else FAILURE
    return "\n".join(
        [
            ".text",
            *map(_label, text),
            " lea 1f(%rip), %rax",
            " ret",
            '1: .asciz "no CUDA here: stub library"',
            *map(_label, status),
            f" mov ${code}, %eax",
            " ret",
            '.section .note.GNU-stack,"",@progbits',
            "",
        ]
    )


def _label(name: str) -> str:
    return f".globl {name}\n.type {name}, @function\n{name}:"


def _library_of(name: str, version: str, needed: set[str]) -> str | None:
    if version in needed:  # NVIDIA's versions are the library's own name, "libcudart.so.13"
        return version
    if version not in ("", "NVSHMEM"):
        return None
    for prefix, library in _LIBRARY_OF_PREFIX.items():
        if name.startswith(prefix):
            return next((one for one in sorted(needed) if one.startswith(f"{library}.")), None)
    return None


def _compile(stub: Stub, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source, versions = Path(scratch, "stub.s"), Path(scratch, "versions.map")
        source.write_text(assembly(stub))
        command = ["gcc", "-shared", "-nostdlib", "-o", str(folder / stub.soname), str(source)]
        command.append(f"-Wl,-soname,{stub.soname}")
        if stub.version:
            versions.write_text(f"{stub.version} {{ global: *; }};\n")
            command.append(f"-Wl,--version-script={versions}")
        subprocess.run(command, check=True)


def _needed(path: Path) -> list[str]:
    names = re.findall(r"\(NEEDED\).*\[(.+?)\]", _output("readelf", "-d", str(path)))
    return [name for name in names if _CUDA_LIBRARY.match(name)]


def _symbols(path: Path, which: str) -> dict[str, str]:
    """Return the version of each dynamic symbol, "" where it has none; weak wants are left out."""
    versions = {}
    for line in _output("nm", "-D", which, str(path)).splitlines():
        *_, kind, symbol = line.split()
        name, _, version = symbol.partition("@")
        if kind not in "wv":
            versions[name] = version.lstrip("@")
    return versions


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
