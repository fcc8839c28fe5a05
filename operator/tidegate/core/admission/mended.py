"""A document without the fields that are wrong, so that its other faults can be told with them."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.core.admission import paths


def without(document: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    """Return the document without what stands at these fields; entries of lists keep their place.

    An entry of a list that has a wrong field goes as a whole, from the last one on.
    """
    rest = copy.deepcopy(dict(document))
    for steps in sorted(map(paths.steps, fields), key=paths.order, reverse=True):
        _remove(rest, _up_to_entry(steps))
    return rest


def _up_to_entry(steps: paths.Steps) -> paths.Steps:
    """Cut a path behind the index of a list, if it has one."""
    at = next((index for index, step in enumerate(steps) if isinstance(step, int)), len(steps))
    return steps[: at + 1]


def _remove(document: dict[str, Any], steps: paths.Steps) -> None:
    if not steps:
        return
    *before, last = steps
    part = paths.value(document, tuple(before))
    if isinstance(part, dict) and isinstance(last, str):
        part.pop(last, None)
    elif isinstance(part, list) and isinstance(last, int) and last < len(part):
        del part[last]
