"""Packages that something is made of: the locked ones, and those that lie in an image's tar."""

import json
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", re.MULTILINE)
_PYTHON = re.compile(r"\.dist-info/METADATA$")
_DEBIAN = re.compile(r"^var/lib/dpkg/status(\.d/[^/]+)?$")
_INSTALLED = "install ok installed"
_CLASSIFIER = "License :: OSI Approved :: "
_LONG = 100
"""Some packages put the whole text where the licence's name belongs; a name is shorter."""


class MaterialsError(Exception):
    """The packages cannot be told; says what to do."""


@dataclass(frozen=True)
class Package:
    """One package: `kind` is `pypi` or `deb`, `license` empty where the package does not say."""

    kind: str
    name: str
    version: str
    license: str = ""
    architecture: str = ""
    needs: frozenset[str] = field(default_factory=frozenset)
    """Names of the packages that it needs, as its own metadata say."""


def locked(lock: Path) -> list[Package]:
    """Return the packages that a lock file pins, with what this environment's copies tell of them.

    Raises:
        MaterialsError: The environment has another version, or none.
    """
    pins = _PIN.findall(lock.read_text(encoding="utf-8"))
    return [_installed(canonicalize_name(name), version) for name, version in pins]


def _installed(name: str, version: str) -> Package:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise MaterialsError(
            f"{name} {version} is locked and not installed: scripts/setup"
        ) from None
    if found.version != version:
        raise MaterialsError(
            f"{name}: {version} is locked and {found.version} installed: run scripts/setup"
        )
    return _python(_headers(str(found.read_text("METADATA"))))


def _python(told: Message) -> Package:
    name = canonicalize_name(told["Name"])
    needs = map(Requirement, told.get_all("Requires-Dist") or ())
    return Package(
        kind="pypi",
        name=name,
        version=told["Version"],
        license=_license(told),
        needs=frozenset(
            canonicalize_name(need.name)
            for need in needs
            if need.marker is None or need.marker.evaluate({"extra": ""})
        ),
    )


def _license(told: Message) -> str:
    """Return the SPDX expression where there is one, else the name that is given in its place."""
    expression = told.get("License-Expression") or ""
    name = (told.get("License") or "").strip()
    classifiers = told.get_all("Classifier") or ()
    approved = [c.removeprefix(_CLASSIFIER) for c in classifiers if c.startswith(_CLASSIFIER)]
    return (
        expression
        or (name if len(name) < _LONG and "\n" not in name else "")
        or ", ".join(approved)
    )


# an image's tar


def in_image(tar: Path) -> list[Package]:
    """Return the Debian and Python packages that lie in an image: in all layers, top ones last.

    Raises:
        MaterialsError: The file is no image tar, or nothing in it is known as a package.
    """
    try:
        with tarfile.open(tar) as archive:
            files = _merged(archive)
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise MaterialsError(f"{tar} is no image tar: {error}") from None
    found = [
        package
        for path, content in files.items()
        for package in (_debian(content) if _DEBIAN.match(path) else [_python(_headers(content))])
    ]
    if not found:
        raise MaterialsError(f"{tar}: no Debian and no Python package is in it")
    return found


def _merged(archive: tarfile.TarFile) -> dict[str, str]:
    """Return the files that tell of packages, by path, as a container would see them."""
    files: dict[str, str] = {}
    for layer in _layers(archive):
        with tarfile.open(fileobj=archive.extractfile(layer)) as content:
            for entry in content:
                path = entry.name.removeprefix("./").removeprefix("/")
                folder, _, name = path.rpartition("/")
                if name.startswith(".wh."):
                    gone = folder if name == ".wh..wh..opq" else f"{folder}/{name[4:]}"
                    files = {p: t for p, t in files.items() if p != gone and not _is_in(p, gone)}
                elif entry.isfile() and (_DEBIAN.match(path) or _PYTHON.search(path)):
                    file = content.extractfile(entry)
                    assert file is not None
                    files[path] = file.read().decode(errors="replace")
    return files


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")


def _layers(archive: tarfile.TarFile) -> list[str]:
    """Return the names of the layers in the tar, the lowest first."""
    names = set(archive.getnames())
    if "manifest.json" in names:
        (image,) = _json(archive, "manifest.json")
        return list(image["Layers"])
    (image,) = _json(archive, "index.json")["manifests"]
    manifest = _json(archive, _blob(image["digest"]))
    return [_blob(layer["digest"]) for layer in manifest["layers"]]


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(archive: tarfile.TarFile, name: str) -> object:
    file = archive.extractfile(name)
    assert file is not None
    return json.load(file)


def _debian(status: str) -> Iterator[Package]:
    for paragraph in status.strip().split("\n\n"):
        told = _headers(paragraph)
        if told.get("Status", _INSTALLED) == _INSTALLED and told.get("Package"):
            yield Package(
                "deb", told["Package"], told["Version"], "", told.get("Architecture") or ""
            )


def _headers(text: str) -> Message:
    return HeaderParser().parsestr(text)
