"""An image under a second reference, as a new release of it: there is no registry to push to."""

import io
import json
import shutil
import tarfile
from pathlib import Path

from e2e.cluster import Cluster, images

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")


def load_again(cluster: Cluster, reference: str, other: str) -> None:
    """Give every node an image that it has once more, under another reference.

    Raises:
        AssertionError: The cluster was never given the image.
    """
    kept = images.kept(cluster.settings)
    found = [tar for tar in kept if tar.name == f"{reference.replace('/', '_')}.tar"]
    assert found, f"{reference} is not loaded; run `scripts/images --load`"
    copy = cluster.settings.images.parent / "renamed.tar"
    _rename(found[0], copy, reference, other)
    try:
        cluster.load_image(copy)
    finally:
        copy.unlink()


def _rename(tar: Path, copy: Path, reference: str, other: str) -> None:
    with tarfile.open(tar) as source, tarfile.open(copy, "w") as target:
        for member in source:
            content = source.extractfile(member)
            if member.name in ("manifest.json", "index.json", "repositories") and content:
                data = _renamed(member.name, json.load(content), reference, other)
                member.size = len(data)
                content = io.BytesIO(data)
            target.addfile(member, content)
    shutil.copystat(tar, copy)


def _renamed(name: str, document: object, reference: str, other: str) -> bytes:
    """Write the reference anew where an archive of docker's or of OCI's form has it."""
    if name == "repositories":
        return b"{}"
    text = json.dumps(document)
    before, after = json.dumps(reference), json.dumps(other)
    return text.replace(before, after).encode()
