"""Where things are, and what must not be anywhere."""

import operator
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
FILES_AT_TOP = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements.lock",
}
FOLDERS_AT_TOP = {
    "bench",
    "charts",
    "crds",
    "docs",
    "e2e",
    "examples",
    "operator",
    "scripts",
    "templates",
    "tests",
}
_WORDS = ("work", "root")
MACHINE_PATH = re.compile(rf"(?<![\w.$}}~-])/({'|'.join(_WORDS)})/[\w.]")
_REGISTRIES = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("proxy.golang", "org"),
    ("sum.golang", "org"),
    ("registry.npmjs", "org"),
    ("crates", "io"),
)
REGISTRY = re.compile("|".join(rf"\b{name}\.{ending}\b" for name, ending in _REGISTRIES))


def tracked() -> list[str]:
    # the checkout may be another user's, as in many CI systems
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.split("\0") if path and (TOP / path).is_file()]


def found_in_files(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path}:{number}: {line.strip()[:80]}"
        for path in tracked()
        for number, line in enumerate(
            (TOP / path).read_text(encoding="utf-8", errors="replace").splitlines(), 1
        )
        if pattern.search(line)
    ]


def test_the_source_folder_does_not_shadow_the_standard_library():
    """`operator/` is a source root like `src/`; as a package it would break Python itself."""
    assert not (TOP / "operator" / "__init__.py").exists()
    assert not (TOP / "operator" / "operator.py").exists()
    assert Path(operator.__file__).is_relative_to(sysconfig.get_paths()["stdlib"])


def test_python_started_at_the_top_imports_its_own_operator():
    program = "import operator, sysconfig; print(operator.__file__); print(sysconfig.get_paths())"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, ''); {program}"],
        cwd=TOP,
        check=True,
        capture_output=True,
        text=True,
    )

    assert str(TOP) not in done.stdout.splitlines()[0]


def test_nothing_but_the_known_parts_stands_at_the_top():
    entries = {path.split("/")[0] for path in tracked()}

    strangers = {entry for entry in entries if not entry.startswith(".")}
    assert strangers <= FILES_AT_TOP | FOLDERS_AT_TOP


@pytest.mark.parametrize(
    ("pattern", "bad"),
    [
        (MACHINE_PATH, "cd /" + "work/main"),
        (MACHINE_PATH, "'/" + "root/.cache'"),
        (REGISTRY, "https://" + "pypi" + ".org/simple"),
        (REGISTRY, "GOPROXY=https://proxy.golang" + ".org"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern, bad):
    assert pattern.search(bad)


def test_no_file_names_a_path_of_the_machine_that_it_was_written_on():
    assert found_in_files(MACHINE_PATH) == []


def test_no_file_names_the_host_of_a_package_registry():
    """Where packages come from is the business of pip's, uv's and Go's own settings."""
    assert found_in_files(REGISTRY) == []
