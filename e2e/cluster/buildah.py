"""Dockerfiles without a container engine: buildah with chroot isolation.

RUN steps use the machine's network, and reach a package index as the machine does: its CA bundle
and pip settings are mounted for the build, and are in no layer.
"""

import configparser
import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import host, image_archive

CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_FILES = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
PIP_VARIABLES = ("INDEX_URL", "EXTRA_INDEX_URL", "TRUSTED_HOST", "DEFAULT_TIMEOUT", "PROXY")


class Store:
    """Buildah's own storage below the cache: base images and cached layers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def build(
        self,
        reference: str,
        context: Path,
        dockerfile: Path,
        arguments: Mapping[str, str],
        tar: Path,
    ) -> None:
        """Build an image and write it as a tar.

        The tar is a docker-archive: not compressed, which is twice as fast to write and to import.
        """
        pip = host.write_if_changed(
            self._folder / "pip.conf", pip_configuration(os.environ, CA_BUNDLE)
        )
        self._run(
            *(
                "build",
                "--quiet",
                "--isolation",
                "chroot",
                "--network",
                "host",
                "--layers",
                "--force-rm",
                f"--cni-config-dir={self._folder / 'cni'}",  # not made in /etc
            ),
            *(
                word
                for name, value in arguments.items()
                for word in ("--build-arg", f"{name}={value}")
            ),
            *(("-v", f"{CA_BUNDLE}:{CA_BUNDLE}:ro") if CA_BUNDLE.exists() else ()),
            *("-v", f"{pip}:/etc/pip.conf:ro"),
            *("-f", dockerfile, "-t", reference, context),
        )
        tar.unlink(missing_ok=True)
        self._run("push", "--quiet", reference, f"docker-archive:{tar}:{reference}")

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Use the store alone, and leave nothing of it mounted."""
        with host.locked(self._folder / "lock"):
            try:
                yield
            finally:
                host.unmount_under(self._folder)

    def pull(self, tar: Path) -> str:
        """Bring the image of a tar into the store, and return its reference."""
        archive = image_archive.read(tar)
        reference, identity = next(iter(archive.images.items()))
        record = self._folder / "pulled" / reference.replace("/", "_")
        is_known = record.exists() and record.read_text() == identity
        if not (
            is_known and self._run("images", "-q", "--filter", f"reference={reference}").strip()
        ):
            self._run("pull", "--quiet", f"{archive.transport}:{tar}")
            host.write_if_changed(record, identity)
        return reference

    def _run(self, *words: str | Path) -> str:
        return host.run(
            *("buildah", "--root", self._folder / "root", "--runroot", self._folder / "run"),
            *("--storage-driver", "overlay"),
            *words,
        )


def pip_configuration(environ: Mapping[str, str], bundle: Path) -> str:
    """The machine's pip settings as one file, for a build that sees neither files nor variables."""
    merged = configparser.RawConfigParser()
    files = [Path(name).expanduser() for name in PIP_FILES]
    if "PIP_CONFIG_FILE" in environ:
        files.append(Path(environ["PIP_CONFIG_FILE"]))
    merged.read(files)
    if not merged.has_section("global"):
        merged.add_section("global")
    for name in PIP_VARIABLES:
        if f"PIP_{name}" in environ:
            merged.set("global", name.lower().replace("_", "-"), environ[f"PIP_{name}"])
    merged.set("global", "cert", str(bundle))
    lines = []
    for section in merged.sections():
        lines += [f"[{section}]", *(f"{key} = {value}" for key, value in merged.items(section))]
    return "\n".join(lines) + "\n"
