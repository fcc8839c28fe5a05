"""Bills of material: what is shipped is in them, as the formats' own readers take it."""

import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cyclonedx.model.bom import Bom

TOP = Path(__file__).resolve().parents[2]
PROGRAM = TOP / "scripts" / "bill_of_materials.py"
STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""


def metadata(name, version, *lines):
    return "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines, ""])


def run(folder, *words):
    command = [sys.executable, PROGRAM, "--output", folder, *words]
    return subprocess.run(command, capture_output=True, text=True)


def read(folder, name):
    return json.loads((folder / f"{name}.cdx.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def of_wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return folder


def tar_of(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return made.getvalue()


def layer(**files):
    return tar_of({name.replace("__", "/"): text.encode() for name, text in files.items()})


def image(path, layers, form):
    """Write an image tar of these layers."""
    blobs = {f"blobs/sha256/{number}": content for number, content in enumerate(layers)}
    if form == "docker":
        index = {"manifest.json": [{"Layers": list(blobs)}]}
    else:
        manifest = {"layers": [{"digest": f"sha256:{n}"} for n in range(len(layers))]}
        blobs["blobs/sha256/m"] = json.dumps(manifest).encode()
        index = {"index.json": {"manifests": [{"digest": "sha256:m"}]}}
    path.write_bytes(tar_of({k: json.dumps(v).encode() for k, v in index.items()} | blobs))
    return path


def test_every_locked_package_is_in_the_bill_with_its_version_and_a_licence(of_wheel):
    lock = (TOP / "operator" / "requirements.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    parts = read(of_wheel, "tidegate")["components"]

    assert len(locked) > 20
    assert {(part["name"], part["version"]) for part in parts} == locked
    for part in parts:
        assert part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}"
        assert part.get("licenses"), f"{part['name']} does not say its licence"
    lines = (of_wheel / "tidegate.licenses.txt").read_text(encoding="utf-8").splitlines()
    assert {tuple(line.partition(":")[0].split()) for line in lines} == locked


def test_what_needs_what_is_told(of_wheel):
    needs = {
        entry["ref"].partition("@")[0]: entry.get("dependsOn", [])
        for entry in read(of_wheel, "tidegate")["dependencies"]
    }

    assert any(need.startswith("pkg:pypi/markupsafe@") for need in needs["pkg:pypi/jinja2"])
    assert any(need.startswith("pkg:pypi/kopf@") for need in needs["tidegate"])


def test_the_same_packages_have_the_same_serial_number(of_wheel, tmp_path):
    run(tmp_path)

    numbers = {read(folder, "tidegate")["serialNumber"] for folder in (of_wheel, tmp_path)}
    assert len(numbers) == 1


def test_the_reference_library_reads_it_back(of_wheel):
    document = read(of_wheel, "tidegate")

    assert document["specVersion"] == "1.6"
    assert len(Bom.from_json(document).components) == len(document["components"])


@pytest.mark.parametrize("form", ["docker", "oci"])
def test_an_images_bill_has_what_a_container_of_it_would_see(tmp_path, form):
    place = "venv__lib__site-packages"
    lower = layer(
        **{
            "var__lib__dpkg__status": STATUS,
            f"{place}__old-1.0.dist-info__METADATA": metadata("old", "1.0"),
            f"{place}__changed-1.0.dist-info__METADATA": metadata("changed", "1.0"),
        }
    )
    upper = layer(
        **{
            f"{place}__.wh.old-1.0.dist-info": "",
            f"{place}__.wh.changed-1.0.dist-info": "",
            f"{place}__changed-2.0.dist-info__METADATA": metadata(
                "changed", "2.0", "License-Expression: MIT"
            ),
        }
    )
    done = run(tmp_path, "--image", image(tmp_path / "image.tar", [lower, upper], form))

    assert done.returncode == 0, done.stderr
    parts = read(tmp_path, "tidegate-image")["components"]
    assert {part["purl"] for part in parts} == {
        "pkg:deb/debian/libc6@2.36-9?arch=amd64",
        "pkg:pypi/changed@2.0",
    }
    lines = (tmp_path / "tidegate-image.licenses.txt").read_text(encoding="utf-8")
    assert "changed 2.0: MIT" in lines


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no tar", "is no image tar"),
        (tar_of({"a": b""}), "is no image tar"),
        (tar_of({"manifest.json": b'[{"Layers": []}]'}), "no Debian and no Python package"),
    ],
)
def test_what_is_no_image_is_told(tmp_path, content, words):
    path = tmp_path / "image.tar"
    path.write_bytes(content)
    done = run(tmp_path, "--image", path)

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
