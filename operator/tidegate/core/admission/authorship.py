"""Who pulled a lever: `override.setBy` is what the API server knows of the user, never a claim."""

import unicodedata
from collections.abc import Mapping
from typing import Any

from tidegate.api.overload_spec import LONGEST_NAME
from tidegate.core.admission import paths

_OVERRIDE = ("spec", "overload", "override")
_FIELD = "setBy"
_INVISIBLE = ("Cc", "Cf", "Zl", "Zp")
Operation = dict[str, Any]


def operations(
    old: Mapping[str, Any] | None, new: Mapping[str, Any], user: str
) -> tuple[Operation, ...]:
    """Return the JSON patch that puts the author of a lever into it; empty where it is there.

    A lever that is as it was stored keeps its author, whoever writes the resource; another one,
    in any field, is the user's.
    """
    lever = paths.value(new, _OVERRIDE)
    if not isinstance(lever, Mapping):
        return ()
    stored = paths.value(old, _OVERRIDE) if old is not None else None
    is_kept = isinstance(stored, Mapping) and _said(stored) == _said(lever)
    author = stored.get(_FIELD) if isinstance(stored, Mapping) and is_kept else _clean(user)
    if author == lever.get(_FIELD):
        return ()
    path = "/" + "/".join((*_OVERRIDE, _FIELD))
    if not author:
        return ({"op": "remove", "path": path},)
    return ({"op": "add", "path": path, "value": author},)


def _said(lever: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in lever.items() if key != _FIELD and value is not None}


def _clean(user: str) -> str:
    """Return a user's name as a line that the schema takes."""
    visible = "".join("?" if unicodedata.category(c) in _INVISIBLE else c for c in user)
    return visible[:LONGEST_NAME]
