"""Image tars, without an image tool: pack a folder as an OCI tar, and read what a tar holds."""

import hashlib
import json
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ClusterError

OCI = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Archive:
    """What an image tar holds.

    Attributes:
        images: Identity of each image by its reference.
        transport: How buildah and skopeo name the tar's form.
    """

    images: Mapping[str, str]
    transport: str


def read(tar: Path) -> Archive:
    """Read the references and identities in an image tar.

    Raises:
        ClusterError: The file is not an image tar, or an image in it has no reference.
    """
    try:
        with tarfile.open(tar) as archive:
            names = set(archive.getnames())
            if "manifest.json" in names:
                images, transport = (
                    _docker_images(_json(archive, "manifest.json")),
                    "docker-archive",
                )
            elif "index.json" in names:
                images, transport = _oci_images(_json(archive, "index.json")), "oci-archive"
            else:
                raise ClusterError(f"{tar}: neither an OCI nor a docker-archive image tar")
    except (OSError, tarfile.TarError) as error:
        raise ClusterError(f"{tar}: {error}") from None
    if not images:
        raise ClusterError(f"{tar}: its image has no reference; save it with a name and a tag")
    return Archive(images, transport)


def _json(archive: tarfile.TarFile, name: str) -> Any:
    file = archive.extractfile(name)
    return json.load(file) if file else None


def _docker_images(manifest: list[dict[str, Any]]) -> dict[str, str]:
    return {tag: image["Config"] for image in manifest for tag in image["RepoTags"] or ()}


def _oci_images(index: dict[str, Any]) -> dict[str, str]:
    key = "org.opencontainers.image.ref.name"
    return {
        manifest["annotations"][key]: manifest["digest"]
        for manifest in index["manifests"]
        if key in manifest.get("annotations", {})
    }


def pack(reference: str, root: Path, tar: Path, config: Mapping[str, object], machine: str) -> None:
    """Pack a root folder as an image of one layer.

    The layer is not compressed: containerd needs three times as long to import a gzip one.

    Args:
        reference: Name and tag.
        root: The image's files.
        tar: File to write.
        config: The image's Cmd, Env, User and so on.
        machine: This machine's kind as `uname -m` tells it.
    """
    with tempfile.TemporaryDirectory(dir=tar.parent) as folder:
        blobs = Path(folder) / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        layer = _add_layer(blobs, root)
        image = {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
            "history": [{"created_by": "tidegate"}],  # buildah wants an entry for each layer
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": _add_document(blobs, image, "config.v1+json"),
            "layers": [layer],
        }
        names = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
        entry = _add_document(blobs, manifest, "manifest.v1+json")
        entry["annotations"] = {name: reference for name in names}
        _write(Path(folder) / "oci-layout", {"imageLayoutVersion": "1.0.0"})
        _write(Path(folder) / "index.json", {"schemaVersion": 2, "manifests": [entry]})
        with tarfile.open(tar, "w") as archive:
            for path in sorted(Path(folder).rglob("*")):
                archive.add(path, path.relative_to(folder).as_posix(), recursive=False)


def _add_layer(blobs: Path, root: Path) -> dict[str, object]:
    path = blobs / "layer"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for child in sorted(root.iterdir()):
            archive.add(child, child.name)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = path.stat().st_size
    shutil.move(path, blobs / digest)
    return {"mediaType": f"{OCI}.layer.v1.tar", "digest": f"sha256:{digest}", "size": size}


def _add_document(blobs: Path, document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document))
