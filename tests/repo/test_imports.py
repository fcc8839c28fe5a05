"""Programs beside the package start: type checks do not cover them, and most are run by hand."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "scripts/facts")


@pytest.mark.parametrize(
    "path",
    [
        str(file.relative_to(TOP))
        for folder in FOLDERS
        for file in sorted((TOP / folder).glob("*.py"))
    ],
)
def test_each_program_finds_what_it_imports(path, monkeypatch):
    name = f"imported_{Path(path).parent.name}_{Path(path).stem}"
    monkeypatch.syspath_prepend(str((TOP / path).parent))  # as Python does for a program
    spec = importlib.util.spec_from_file_location(name, TOP / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look themselves up

    spec.loader.exec_module(module)
