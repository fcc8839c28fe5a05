"""Where an image may come from: its reference read as container runtimes read it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal
from tidegate.core.admission.rules import Rules

_FIELD = "spec.engine.image"
_HUB = "docker.io"
_HUB_ALIASES = ("index.docker.io", "registry-1.docker.io")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?:(?P<host>localhost|(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+|\[[0-9a-fA-F:]+\]|[A-Za-z0-9-]+(?=:))"
    r"(?P<port>:[0-9]{1,5})?/)?"
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Image:
    """An image's reference; `repository` begins with the registry's host, written out."""

    repository: str
    tag: str | None
    digest: str | None


def read(reference: str) -> Image | None:
    """Return a reference's parts; None where no container runtime would take it."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    host, path = (match["host"] or "").lower(), match["path"]
    host = _HUB if host in ("", *_HUB_ALIASES) else host + (match["port"] or "")
    if host == _HUB and "/" not in path:
        path = f"library/{path}"
    return Image(f"{host}/{path}", match["tag"], match["digest"])


def check(reference: str, rules: Rules) -> Iterator[Finding]:
    """Yield what the settings object to, and a reference that is none."""
    image = read(reference)
    if image is None:
        limit = (
            "is no image reference: a name in lower case, then a tag or the digest in full "
            "(@sha256: and 64 hexadecimal digits)"
        )
        yield refusal(Reason.INVALID_SPEC, _FIELD, limit, "correct the reference")
        return
    if rules.registries and not any(_is_below(image, entry) for entry in rules.registries):
        yield refusal(
            Reason.IMAGE_NOT_ALLOWED,
            _FIELD,
            f"{image.repository} is in none of the allowed registries "
            f"({', '.join(rules.registries)})",
        )
    if rules.digests_only and image.digest is None:
        yield refusal(
            Reason.IMAGE_NOT_PINNED,
            _FIELD,
            "has no digest, and the operator's settings ask for one: a tag can be moved",
        )


def _is_below(image: Image, entry: str) -> bool:
    """Compare whole parts: `ghcr.io/team` does not allow `ghcr.io/teammates`."""
    root = entry.rstrip("/").lower()
    return image.repository == root or image.repository.startswith(f"{root}/")
