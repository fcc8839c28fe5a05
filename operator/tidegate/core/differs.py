"""Does a live object still hold what Tidegate asks for: the question before every write.

Only what we set is compared, since the API server adds defaults and other writers add fields of
their own. What we no longer set is seen by a digest of the object as it was last applied, kept in
an annotation. `spec.replicas` is left out of the digest: a rollout scales old slices without
applying them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.api.wire import canonical_quantity
from tidegate.core import names

Document = dict[str, Any]
_DIGEST_LENGTH = 16
_QUANTITY_MAPS = ("limits", "requests", "hard", "capacity")
_QUANTITIES = ("sizeLimit", "storage", "divisor")
_UNSTORED_WHEN_FALSE = ("publishNotReadyAddresses", "readOnly", "hostNetwork")
"""Booleans whose `false` the API server does not store; for others, absent means a default."""
_MERGE_KEYS = ("name", "mountPath", "containerPort", "uid", "topologyKey")
"""Keys by which the API server merges lists, in the order in which they are tried."""


def stamp(document: Document) -> Document:
    """Return the object with its digest, ready to be applied."""
    metadata = document["metadata"]
    annotations = {
        **(metadata.get("annotations") or {}),
        names.ANNOTATION_APPLIED: _digest(document),
    }
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def differs(desired: Document, live: Document) -> bool:
    """Say whether a stamped object has to be applied to make the live one as it should be."""
    return not _holds(desired, live)


def _digest(document: Document) -> str:
    spec = document.get("spec")
    if isinstance(spec, Mapping) and "replicas" in spec:
        document = {**document, "spec": {k: v for k, v in spec.items() if k != "replicas"}}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return names.digest(text, _DIGEST_LENGTH)


def _holds(wanted: Any, there: Any, key: str = "", parent: str = "") -> bool:
    """Say whether what is there has all that is wanted."""
    if _is_empty(wanted):  # the API server does not store empty values
        return _is_empty(there) or (wanted == {} and isinstance(there, Mapping))
    if wanted is False and there is None:
        return key in _UNSTORED_WHEN_FALSE
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(
            _holds(value, there.get(name), name, key) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(there, list) and _list_holds(wanted, there, key)
    if key in _QUANTITIES or parent in _QUANTITY_MAPS:
        return there is not None and canonical_quantity(wanted) == canonical_quantity(there)
    return type(wanted) is type(there) and bool(wanted == there)


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == {} or value == []


def _list_holds(wanted: Sequence[Any], there: Sequence[Any], key: str) -> bool:
    merge_key = _merge_key(wanted)
    if merge_key is None:
        return len(wanted) == len(there) and all(
            _holds(mine, theirs, key) for mine, theirs in zip(wanted, there, strict=True)
        )
    by_key = {entry[merge_key]: entry for entry in there if merge_key in entry}
    return all(_holds(entry, by_key.get(entry[merge_key]), key) for entry in wanted)


def _merge_key(wanted: Sequence[Any]) -> str | None:
    """Return the key that tells a list's entries apart; others may have added entries to it."""
    for name in _MERGE_KEYS:
        if all(isinstance(entry, Mapping) and name in entry for entry in wanted):
            values = [entry[name] for entry in wanted]
            if all(isinstance(value, str | int) for value in values):
                return name if len({*values}) == len(values) else None
    return None
