"""A resource with other values: fields by their path, or by a shorter one that is clear."""

import copy
import difflib
from collections.abc import Mapping
from typing import Any, NoReturn

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import Pool, Pools
from tidegate.core.what_if.axes import Combination, Value
from tidegate.errors import Invalid, Problem


def varied(document: Mapping[str, Any], combination: Combination) -> dict[str, Any]:
    """Return a resource with other values in some fields.

    `kvCache.dtype` stands for `spec.kvCache.dtype`, `decode.tensorParallel` for
    `spec.pools.decode.tensorParallel`, and `tensorParallel` for that field of every pool.

    Raises:
        Invalid: The resource has no such field; names the nearest.
    """
    changed = copy.deepcopy(dict(document))
    for field, value in combination:
        for path in _paths(field, changed):
            _set(changed, path, value, field)
    return changed


def _paths(field: str, document: Mapping[str, Any]) -> list[list[str]]:
    names = field.split(".")
    if names[0] == "spec":
        names = names[1:]
    pools = list((document.get("spec") or {}).get("pools") or {})
    first = names[0] if names else ""
    if first in _keys(LLMDeploymentSpec):
        return [["spec", *names]]
    if first in _keys(Pools):
        if first not in pools:
            _fault(field, f"the resource has no pool {first}; it has {', '.join(pools)}")
        return [["spec", "pools", *names]]
    if first in _keys(Pool):
        return [["spec", "pools", pool, *names] for pool in pools]
    known = [*_keys(LLMDeploymentSpec), *_keys(Pools), *_keys(Pool)]
    near = difflib.get_close_matches(first, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else ""
    _fault(field, f"there is no such field{hint}")


def _keys(model: Any) -> tuple[str, ...]:
    return tuple(info.alias or name for name, info in model.model_fields.items())


def _set(document: dict[str, Any], path: list[str], value: Value, field: str) -> None:
    target: Any = document
    for name in path[:-1]:
        target = target.setdefault(name, {})
        if not isinstance(target, dict):
            _fault(field, f"{name} is no object")
    target[path[-1]] = value


def _fault(field: str, problem: str) -> NoReturn:
    raise Invalid([Problem(f"--vary {field}", problem)])
