"""Makes the engine's container image: what `install` installed, on the cluster's base image.

    python3 -m e2e.engine.image

It takes the place of the official image: `ENTRYPOINT ["vllm", "serve"]`, so a pod's arguments are
the model and its flags. The tiny models are in it, as /models/tiny-gqa and so on. It runs as any
user with a read-only root; it needs a writable HOME and /tmp, and /dev/shm of 256 MiB.

The image is packed here, not built from a Dockerfile: nothing runs in it on the way, and 1.6 GB
are written once. Standard library only.
"""

import ctypes
import json
import os
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.cluster import host, image_archive, images
from e2e.engine import install, recipe, tiny_model
from e2e.engine.recipe import Installation

REFERENCE = f"localhost/vllm-cpu:v{recipe.VERSION}"
MODELS = "/models"
HOME = Path("/opt/engine")

_SITE = HOME / "pysite"
_NUMA = "libnuma.so.1"
_SHAPED_BY = tuple(
    recipe.HERE / name
    for name in ("image.py", "tiny_model.py", "tiny_tokenizer.py", "pysite/sitecustomize.py")
)


def engine_image() -> Path:
    """Return the image's tar, making it first if need be: about two minutes and 1.8 GB.

    Raises:
        InstallError: the engine cannot be installed on this machine.
    """
    engine = install.install()
    base = images.base_image()
    identities = sorted(image_archive.read(base).images.items())
    key = recipe.digest(_SHAPED_BY, engine.home.name, str(identities))
    tar = recipe.cache() / "images" / f"vllm-cpu-v{recipe.VERSION}-{key}.tar"
    with host.locked(tar.with_suffix(".lock")):
        if not tar.exists():
            _make(engine, base, tar)
    return tar


def configuration() -> dict[str, object]:
    """Return the image's own settings: what runs, as whom, in which environment."""
    variables = {
        "PATH": f"{HOME / 'venv' / 'bin'}:{images.SYSTEM_PATH}",
        "HOME": "/tmp",
        **recipe.environment(HOME, _SITE),
    }
    return {
        "Entrypoint": ["vllm", "serve"],
        "User": "2000:0",
        "WorkingDir": "/",
        "ExposedPorts": {"8000/tcp": {}},
        "Env": [f"{name}={value}" for name, value in variables.items()],
    }


def _make(engine: Installation, base: Path, tar: Path) -> None:
    print(f"engine: image {REFERENCE}: two minutes, once ...", file=sys.stderr)
    # in the cache, not in /tmp: the engine's files are linked and not copied
    with tempfile.TemporaryDirectory(dir=engine.home.parent) as scratch:
        root = Path(scratch)
        _unpack(base, root)
        _add_engine(engine, root)
        for arch in tiny_model.ARCHS:
            tiny_model.write_model(root / MODELS.strip("/") / f"tiny-{arch}", arch)
        unfinished = tar.with_suffix(".new")
        image_archive.pack(REFERENCE, root, unfinished, configuration(), platform.machine())
        unfinished.replace(tar)


def _unpack(image: Path, root: Path) -> None:
    """Lay the files of an OCI image into a folder, its layers one over the other."""
    with tarfile.open(image) as archive:
        (entry,) = _document(archive, "index.json")["manifests"]
        for layer in _document(archive, _blob(entry))["layers"]:
            with tarfile.open(fileobj=archive.extractfile(_blob(layer))) as files:
                files.extractall(root, filter="fully_trusted")  # made on this machine


def _blob(entry: Mapping[str, Any]) -> str:
    return f"blobs/{entry['digest'].replace(':', '/')}"


def _document(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    if file is None:
        raise install.InstallError(f"{name} is no file of the base image's tar; make it anew")
    return json.load(file)


def _add_engine(engine: Installation, root: Path) -> None:
    """Link the engine into the image's tree, and set its paths to where it lies there."""
    home = root / HOME.relative_to("/")
    for folder in (engine.nixl, engine.venv):
        shutil.copytree(folder, home / folder.name, copy_function=os.link, symlinks=True)
    shutil.rmtree(home / "venv" / "bin")
    (home / "venv" / "bin").mkdir()
    (home / "venv" / "bin" / "python3").symlink_to("/usr/bin/python3")
    _write(home / "venv" / "bin" / "vllm", _PROGRAM, mode=0o755)
    (home / "venv" / "pyvenv.cfg").unlink()
    _write(home / "venv" / "pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    shutil.copytree(recipe.SITE, home / "pysite", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(engine.poll_shim, home)
    shutil.copy(_numa_library(), root / "usr" / "lib" / "x86_64-linux-gnu" / _NUMA)


_PROGRAM = f"""#!{HOME}/venv/bin/python3
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":  # the engine's processes import this file too
    sys.exit(main())
"""


def _numa_library() -> Path:
    """Return this machine's libnuma, which vLLM's kernels link to and the base image lacks."""
    ctypes.CDLL(_NUMA)
    maps = Path("/proc/self/maps").read_text().split()
    return next(Path(word) for word in maps if "/libnuma.so" in word)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.write_text(text)
    path.chmod(mode)


def main() -> None:
    """Make the image and print where its tar is."""
    try:
        print(engine_image())
    except install.InstallError as error:
        sys.exit(f"engine: {error}")


if __name__ == "__main__":
    main()
