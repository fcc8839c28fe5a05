"""Prints a hash of the operator's code and templates: of this checkout, or of an image.

It is run twice, here and by the Python of the installed operator, and must not import anything of
the project.
"""

import hashlib
import importlib.util
import sys
from pathlib import Path

_NOT_CODE = ("__pycache__", "_templates", "_crds", "_runbooks")


def of(package: Path, templates: Path) -> str:
    """Return the hash of all files of a package and of its templates."""
    digest = hashlib.sha256()
    for top in (package, templates):
        for file in sorted(top.rglob("*")):
            inside = file.relative_to(top)
            if file.is_file() and not set(_NOT_CODE) & set(inside.parts):
                digest.update(f"{inside.as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def main() -> None:
    """Print the hash of the package that this Python has installed."""
    spec = importlib.util.find_spec("tidegate")
    if spec is None or spec.origin is None:
        sys.exit("fingerprint: this Python has no package tidegate")
    package = Path(spec.origin).parent
    print(of(package, package / "_templates"))


if __name__ == "__main__":
    main()
