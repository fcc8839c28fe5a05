"""Files that Tidegate ships beside its code: templates and CustomResourceDefinitions.

They are in the wheel under `tidegate/_templates` and `tidegate/_crds`, and in a checkout at its
top. They are looked for beside the package only: an editable install leaves stale copies elsewhere
on the path.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def templates() -> Traversable:
    """Return the folder of the Jinja templates."""
    return _folder("templates")


def template(name: str) -> str | None:
    """Return the text of a template, or None when there is none of that name."""
    file = templates() / name
    return file.read_text(encoding="utf-8") if file.is_file() else None


def crds() -> Traversable:
    """Return the folder of the CustomResourceDefinitions."""
    return _folder("crds")


def _folder(name: str) -> Traversable:
    """Return a shipped folder.

    Raises:
        FileNotFoundError: Neither the wheel's nor the checkout's is there: a broken installation.
    """
    package = files("tidegate")
    shipped = package / f"_{name}"
    if shipped.is_dir():
        return shipped
    checkout = Path(str(package)).parents[1] / name
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(
        f"no {name} in {shipped} nor in {checkout}; install Tidegate again from its wheel"
    )
