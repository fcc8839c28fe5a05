"""What is generated is current; what is shipped is found."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tidegate import assets
from tidegate.api import generated

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("path", generated.files())
def test_each_generated_file_is_current(path):
    assert (TOP / path).read_text(encoding="utf-8") == generated.files()[path], (
        f"{path} is not current; run scripts/generate"
    )


def test_the_check_of_generated_files_passes():
    done = subprocess.run(
        [sys.executable, TOP / "scripts" / "generated_files.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_else_lies_among_the_generated_definitions():
    assert {f"crds/{file.name}" for file in (TOP / "crds").iterdir()} == {
        path for path in generated.files() if path.startswith("crds/")
    }


def test_a_checkout_finds_its_own_templates_and_definitions():
    assert Path(str(assets.templates())) == TOP / "templates"
    assert Path(str(assets.crds())) == TOP / "crds"


def test_a_template_that_is_not_there_has_no_text():
    assert assets.template("no-such-template.yaml.j2") is None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built by the build back end that pyproject.toml names, without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_code_the_data_the_templates_and_the_definitions(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        *(f"tidegate/_templates/{file.name}" for file in (TOP / "templates").iterdir()),
        *(f"tidegate/_crds/{file.name}" for file in (TOP / "crds").iterdir()),
        *(f"tidegate/_runbooks/{file.name}" for file in (TOP / "docs" / "runbooks").iterdir()),
        *(
            str(file.relative_to(TOP / "operator"))
            for file in (TOP / "operator" / "tidegate").rglob("*")
            if file.suffix in {".py", ".json"}
        ),
    }

    assert wanted <= names
    assert all(name.startswith(("tidegate/", "tidegate-")) for name in names)


def test_an_installed_wheel_finds_its_own_templates_and_definitions(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = (
        f"import sys, json; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from tidegate import assets\n"
        "print(json.dumps([str(assets.__file__), str(assets.templates()), str(assets.crds()),"
        " assets.runbooks(),"
        " sorted(f.name for f in assets.templates().iterdir())]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    module, templates, crds, runbooks, names = json.loads(done.stdout)

    assert Path(module).is_relative_to(tmp_path)
    assert Path(templates) == tmp_path / "tidegate" / "_templates"
    assert Path(crds) == tmp_path / "tidegate" / "_crds"
    assert "KVUsageHigh" in runbooks
    assert names == sorted(file.name for file in (TOP / "templates").iterdir())
