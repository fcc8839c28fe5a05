"""Container images for the cluster, made here and kept in the cache by a hash of their inputs."""

import hashlib
import json
import os
import platform
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import host, image_archive
from .buildah import Store
from .containerd import PAUSE_REFERENCE
from .settings import CHECKOUT, Settings

BASE_FOLDER = CHECKOUT / "e2e" / "images" / "base"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OPERATOR_REFERENCE = "localhost/tidegate/operator:dev"
OPERATOR_CONTEXT = (
    "LICENSE",
    "README.md",
    "crds",
    "docs/runbooks",
    "operator/requirements.lock",
    "operator/tidegate",
    "pyproject.toml",
    "templates",
)
"""What `operator/Dockerfile` copies; `operator/Dockerfile.dockerignore` says the same."""
FILE_DATE = 1577836800
"""Modification time of every file of a build context: 2020-01-01; a zip can't hold much older."""
KEPT_VERSIONS = 3
"""Tars of one image that stay in the cache."""
FORMAT = "1"
"""Changes when this module makes another image of the same inputs."""


def pause_image(settings: Settings | None = None) -> Path:
    """The tar of the image that holds a pod's namespaces."""
    source = BASE_FOLDER / "pause.c"

    def make(tar: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            host.run("gcc", "-Os", "-static", "-s", source, "-o", Path(folder) / "pause")
            config = {"Entrypoint": ["/pause"], "User": "65535:65535"}
            image_archive.pack(PAUSE_REFERENCE, Path(folder), tar, config, platform.machine())

    return _cached(settings, "pause", [source.read_bytes()], make)


def base_image(settings: Settings | None = None) -> Path:
    """The tar of the base image, Debian with Python 3.11 and venv: `localhost/tidegate/base`."""
    text = (BASE_FOLDER / "base.json").read_bytes()

    def make(tar: Path) -> None:
        host.say("making the base image from Debian's packages: about 1 min, once")
        with tempfile.TemporaryDirectory() as folder:
            _make_base(Path(folder), tar, json.loads(text))

    return _cached(settings, "base", [text], make)


def _make_base(folder: Path, tar: Path, base: Mapping[str, Any]) -> None:
    root = folder / "root"
    host.run(
        *("mmdebstrap", "--variant=minbase", f"--include={','.join(base['packages'])}"),
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in base["omitted"]),
        *(base["suite"], root),
    )
    config = {"Cmd": ["python3"], "Env": [f"PATH={SYSTEM_PATH}"]}
    image_archive.pack(base["reference"], root, tar, config, platform.machine())


def build_image(
    tag: str,
    context: Path,
    dockerfile: Path | str = "Dockerfile",
    build_args: Mapping[str, str] | None = None,
    base: Path | None = None,
    include: Iterable[str] = (),
    settings: Settings | None = None,
) -> Path:
    """Build a Dockerfile and return the image's tar; at once if no input has changed.

    Args:
        tag: The image's reference with a tag, as `localhost/tidegate/operator:dev`. Not `latest`:
            the kubelet would try to pull it.
        context: Folder that COPY reads.
        dockerfile: Path, relative to the context unless it is absolute.
        build_args: Values of ARG.
        base: Image tar that `ARG BASE` names; the base image without it.
        include: Paths in the context that are used; without it all of the context.
        settings: Where the cache is; the environment decides without it.

    Raises:
        ClusterError: A RUN step failed; holds its last messages.
    """
    settings = settings or Settings.from_environment()
    base = base or base_image(settings)
    recipe = (context / dockerfile).read_bytes()
    arguments = dict(build_args or {})
    origin = image_archive.read(base).images

    def make(tar: Path) -> None:
        host.say(f"building {tag}")
        store = Store(settings.cache / "buildah")
        with store.in_use(), tempfile.TemporaryDirectory() as folder:
            arguments["BASE"] = store.pull(base)
            staged = Path(folder) / "context"
            stage(context, include, staged)
            (Path(folder) / "Dockerfile").write_bytes(recipe)
            store.build(tag, staged, Path(folder) / "Dockerfile", arguments, tar)

    inputs = [
        json.dumps([tag, sorted(arguments.items()), sorted(origin.items())]).encode(),
        recipe,
        *context_parts(context, include),
    ]
    return _cached(settings, tag.rpartition("/")[2].replace(":", "-"), inputs, make)


def operator_image(settings: Settings | None = None) -> Path:
    """The tar of Tidegate's own image, of this checkout: `localhost/tidegate/operator:dev`."""
    return build_image(
        OPERATOR_REFERENCE,
        CHECKOUT,
        "operator/Dockerfile",
        include=OPERATOR_CONTEXT,
        settings=settings,
    )


def files(context: Path, include: Iterable[str] = ()) -> Iterator[Path]:
    """The files of a build context, sorted; what Python caches is left out."""
    for top in sorted(context / name for name in include) or [context]:
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if "__pycache__" not in path.parts and (path.is_file() or path.is_symlink()):
                yield path


def context_parts(context: Path, include: Iterable[str] = ()) -> Iterator[bytes]:
    """What identifies a build context: each file's path, executable bit and content."""
    for path in files(context, include):
        yield path.relative_to(context).as_posix().encode()
        if path.is_symlink():
            yield b"link " + os.readlink(path).encode()
        else:
            yield b"x" if path.stat().st_mode & stat.S_IXUSR else b"-"
            yield path.read_bytes()


def stage(context: Path, include: Iterable[str], target: Path) -> None:
    """Copy a build context, every file with one date, so that cached layers are found again."""
    for name in include:
        if (context / name).is_dir():
            (target / name).mkdir(parents=True)  # also an empty one: the package build wants it
    for path in files(context, include):
        copy = target / path.relative_to(context)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy, follow_symlinks=False)
        os.utime(copy, (FILE_DATE, FILE_DATE), follow_symlinks=False)


def keep(settings: Settings, tar: Path) -> Path:
    """Keep a tar among those that every node gets, in place of one with the same references."""
    references = image_archive.read(tar).images
    kept_tar = settings.images / f"{'+'.join(sorted(references)).replace('/', '_')}.tar"
    kept_tar.parent.mkdir(parents=True, exist_ok=True)
    if not (kept_tar.exists() and kept_tar.samefile(tar)):
        kept_tar.unlink(missing_ok=True)
        try:
            kept_tar.hardlink_to(tar)
        except OSError:  # another file system
            shutil.copyfile(tar, kept_tar)
    return kept_tar


def kept(settings: Settings) -> list[Path]:
    """The tars that every node gets."""
    return sorted(settings.images.glob("*.tar"))


def _cached(
    settings: Settings | None, name: str, inputs: Iterable[bytes], make: Callable[[Path], None]
) -> Path:
    """The tar with these inputs; made if it is missing, complete or not at all."""
    digest = hashlib.sha256(FORMAT.encode())
    for part in inputs:
        digest.update(len(part).to_bytes(8, "big") + part)
    folder = (settings or Settings.from_environment()).cache / "images"
    tar = folder / f"{name}-{digest.hexdigest()[:16]}.tar"
    if not tar.exists():
        with host.locked(folder / f"{name}.lock"):
            if not tar.exists():
                new = tar.with_suffix(".new")
                make(new)
                new.replace(tar)
                for old in outdated(folder, name):
                    old.unlink(missing_ok=True)
    return tar


def outdated(folder: Path, name: str) -> list[Path]:
    """Tars of an image in the cache beyond the newest few."""
    pattern = re.compile(re.escape(name) + r"-[0-9a-f]{16}\.tar")
    tars = [tar for tar in folder.glob("*.tar") if pattern.fullmatch(tar.name)]
    return sorted(tars, key=lambda tar: tar.stat().st_mtime, reverse=True)[KEPT_VERSIONS:]
