"""Many measurements in one ConfigMap: bounded, and of garbage only what can be read.

A key is the engine's configuration and the start of its image's digest. The value has also the
image as the spec writes it, so that a tag leads to the digest that it was seen to stand for.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core.measure import measurement
from tidegate.core.measure.measurement import Measurement

MOST_ENTRIES = 128
MOST_BYTES = 256 * 1024
"""Of all values together: a ConfigMap may have 1 MiB."""
LONGEST_AGE_SECONDS = 180 * 24 * 3600.0
_LONGEST_ENTRY = 4096
_LONGEST_TEXT = 512
_LATEST = 2**40
_NO_NEWS_SHARE = 0.002
"""Engines differ from start to start by less than this share of what they take beside KV."""
_KEY = re.compile(r"[0-9a-f]{24}\.[0-9a-f]{12}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One engine's measurement; `learnt_at` is in seconds since 1970, `about` is for people."""

    configuration: str
    image: str
    image_digest: str
    measurement: Measurement
    learnt_at: float
    about: str = ""

    @property
    def key(self) -> str:
        """The key in the ConfigMap."""
        return f"{self.configuration}.{self.image_digest.partition(':')[2][:12]}"


@dataclass(frozen=True)
class Store:
    """The measurements of a namespace, by key."""

    entries: Mapping[str, Entry] = field(default_factory=dict)

    def find(self, configuration: str, image: str) -> Measurement | None:
        """Return what is known of a configuration under an image; None where that is not sure.

        A tag is trusted for as long as it was seen to stand for one digest only.
        """
        digests = {e.image_digest for e in self.entries.values() if e.image == image}
        pinned = digest_of(image)
        if pinned is None and len(digests) != 1:
            return None
        wanted = pinned or next(iter(digests))
        for entry in self.entries.values():
            if (entry.configuration, entry.image_digest) == (configuration, wanted):
                return entry.measurement
        return None

    def adding(self, entry: Entry) -> "Store":
        """Return the store with what one more start of an engine told; itself for no news."""
        before = self.entries.get(entry.key)
        if before is not None:
            terms = _merged(before.measurement, entry.measurement)
            is_same_image = (before.image, before.image_digest) == (entry.image, entry.image_digest)
            if terms == before.measurement and is_same_image:
                return self
            entry = replace(entry, measurement=terms)
        return Store({**self.entries, entry.key: entry})

    def pruned(self, now: float) -> "Store":
        """Return the store without the oldest entries, and within its bounds."""
        kept: dict[str, Entry] = {}
        size_bytes = 0
        for entry in sorted(self.entries.values(), key=lambda e: (-e.learnt_at, e.key)):
            size_bytes += len(_encode(entry).encode()) + len(entry.key)
            is_old = now - entry.learnt_at > LONGEST_AGE_SECONDS
            if is_old or len(kept) >= MOST_ENTRIES or size_bytes > MOST_BYTES:
                break
            kept[entry.key] = entry
        return Store(kept)


def encode(store: Store) -> dict[str, str]:
    """Return the data of the ConfigMap."""
    return {key: _encode(entry) for key, entry in sorted(store.entries.items())}


def decode(data: object) -> Store:
    """Read the data of a ConfigMap; what is no entry of ours is left out."""
    if not isinstance(data, Mapping):
        return Store()
    read = [_decode(key, text) for key, text in list(data.items())[: 4 * MOST_ENTRIES]]
    return Store({entry.key: entry for entry in read if entry is not None})


def digest_of(image: object) -> str | None:
    """Return the digest in an image reference or an imageID, None where it has none."""
    match = _DIGEST.search(image) if isinstance(image, str) else None
    return match[0] if match else None


def _merged(before: Measurement, now: Measurement) -> Measurement:
    """Keep what only an earlier start told, and what differs by no more than starts do.

    The limits belong to the start that profiled.
    """
    known = {
        name: _kept(getattr(before.terms, name), value)
        for name, value in vars(now.terms).items()
        if value is not None
    }
    terms = replace(before.terms, **known)
    has_profiled = now.terms.beside_kv_bytes is not None
    return replace(now if has_profiled else before, terms=terms)


def _kept(before: int | None, now: int) -> int:
    return before if before is not None and abs(now - before) <= _NO_NEWS_SHARE * before else now


def _encode(entry: Entry) -> str:
    stored: dict[str, Any] = {
        "about": entry.about[:_LONGEST_TEXT],
        "image": entry.image,
        "imageDigest": entry.image_digest,
        "learntAt": int(entry.learnt_at),
        "measured": measurement.document(entry.measurement),
    }
    return json.dumps(stored, separators=(",", ":"))


def _decode(key: object, text: object) -> Entry | None:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return None
    if not isinstance(text, str) or len(text) > _LONGEST_ENTRY:
        return None
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    image, digest, at = (stored.get(name) for name in ("image", "imageDigest", "learntAt"))
    read = measurement.read(stored.get("measured"))
    if read is None or not isinstance(image, str) or not measurement.is_count(at, _LATEST):
        return None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return None
    entry = Entry(key.partition(".")[0], image, digest, read, float(at), str(stored.get("about")))
    return entry if entry.key == key else None
