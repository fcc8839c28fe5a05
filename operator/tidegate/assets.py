"""Files that Tidegate ships beside its code: templates, CustomResourceDefinitions and runbooks.

They are in the wheel under `tidegate/_templates`, `tidegate/_crds` and `tidegate/_runbooks`, and in
a checkout at its top and in `docs`. They are looked for beside the package only: an editable
install leaves stale copies elsewhere on the path.
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


def runbooks() -> list[str]:
    """Return the names of the alerts that have a runbook."""
    folder = _folder("runbooks", "docs/runbooks")
    found = (file.name for file in folder.iterdir())
    return sorted(name.removesuffix(".md") for name in found if name.endswith(".md"))


def runbook(alert: str) -> str:
    """Return the runbook of an alert that has one."""
    file = _folder("runbooks", "docs/runbooks") / f"{alert}.md"
    return file.read_text(encoding="utf-8")


def _folder(name: str, place: str | None = None) -> Traversable:
    """Return a shipped folder; `place` is where it is in a checkout.

    Raises:
        FileNotFoundError: Neither the wheel's nor the checkout's is there: a broken installation.
    """
    package = files("tidegate")
    shipped = package / f"_{name}"
    if shipped.is_dir():
        return shipped
    checkout = Path(str(package)).parents[1] / (place or name)
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(
        f"no {name} in {shipped} nor in {checkout}; install Tidegate again from its wheel"
    )
