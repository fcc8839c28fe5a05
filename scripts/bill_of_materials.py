"""Writes the bill of materials of the wheel or of an image, and the list of its licences."""

import argparse
import os
import sys
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import materials
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from materials import Package
from packageurl import PackageURL

import tidegate

TOP = Path(__file__).resolve().parents[1]
LOCK = TOP / "operator" / "requirements.lock"
NAMESPACE = uuid.UUID("5a0d2d0e-6b1c-5f0e-9d0c-1f3b5d7e9a11")
"""Of our serial numbers: the same packages have the same one. Drawn once."""


def main() -> int:
    """Run the command; 0 when both files are written, 2 when the packages cannot be told."""
    parser = argparse.ArgumentParser(prog="scripts/sbom", description=__doc__)
    parser.add_argument("--image", type=Path, metavar="TAR", help="an image's tar; else the wheel")
    parser.add_argument("--output", type=Path, default=TOP / "dist", metavar="FOLDER")
    given = parser.parse_args()
    try:
        packages = materials.in_image(given.image) if given.image else materials.locked(LOCK)
    except materials.MaterialsError as error:
        print(f"sbom: error: {error}", file=sys.stderr)
        return 2
    name = "tidegate-image" if given.image else "tidegate"
    given.output.mkdir(parents=True, exist_ok=True)
    for suffix, text in (
        (".cdx.json", bill(name, packages)),
        (".licenses.txt", licenses(packages)),
    ):
        (given.output / f"{name}{suffix}").write_text(text, encoding="utf-8")
        print(given.output / f"{name}{suffix}")
    return 0


def bill(name: str, packages: Iterable[Package]) -> str:
    """Return the CycloneDX document of what has this name and is made of these packages."""
    parts = {package: component(package) for package in packages}
    kind = ComponentType.CONTAINER if name.endswith("-image") else ComponentType.APPLICATION
    root = Component(name=name, version=tidegate.__version__, type=kind, bom_ref=name)
    bom = Bom(components=parts.values())
    bom.metadata.component = root
    bom.metadata.timestamp = _now()
    references = sorted(str(part.bom_ref) for part in parts.values())
    bom.serial_number = uuid.uuid5(NAMESPACE, " ".join([name, tidegate.__version__, *references]))
    bom.register_dependency(root, parts.values())
    by_name = {package.name: part for package, part in parts.items() if package.kind == "pypi"}
    for package, part in parts.items():
        needed = sorted(package.needs & by_name.keys())
        bom.register_dependency(part, [by_name[need] for need in needed])
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def component(package: Package) -> Component:
    """Return a package as CycloneDX tells of it; its purl is its reference."""
    purl = PackageURL(
        type=package.kind,
        namespace="debian" if package.kind == "deb" else None,
        name=package.name,
        version=package.version,
        qualifiers={"arch": package.architecture} if package.architecture else None,
    )
    told = [LicenseFactory().make_from_string(package.license)] if package.license else []
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=told,
    )


def licenses(packages: Iterable[Package]) -> str:
    """Return a line for each package: what it is, and under which licence it comes."""
    lines = [
        f"{package.name} {package.version}: {_said(package)}\n"
        for package in sorted(packages, key=lambda package: (package.kind, package.name))
    ]
    return "".join(lines)


def _said(package: Package) -> str:
    if package.kind == "deb":
        return f"/usr/share/doc/{package.name}/copyright in the image"
    return package.license or "not said"


def _now() -> datetime:
    """Return the time of the build, or the one that a reproducible build is told."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.fromtimestamp(int(told), UTC) if told else datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main())
