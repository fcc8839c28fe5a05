"""The revision: one hash of everything that shapes the pods of all pools.

A pair of prefill and decode pods is one revision, since only equals can exchange KV. What does not
shape a pod (replicas, pins to classes, rollout limits) is left out: changing it restarts nothing.
What depends on the class of node is left out too: it follows from what is in the hash.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import names

RENDERING = 1
"""Raise this when a change of the templates or the flag rules shall restart all pods."""

_NOT_SHAPING = ("replicas", "nodeClasses")
_NOT_SIZING = ("peakRequestsPerSecond",)


def of(spec: LLMDeploymentSpec, model_config: Mapping[str, Any]) -> str:
    """Return the revision: eight hexadecimal digits."""
    wire = spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )  # a field that a later version adds changes no revision before somebody sets it
    pools = {
        name: {key: value for key, value in pool.items() if key not in _NOT_SHAPING}
        for name, pool in wire["pools"].items()
    }
    engine = {
        key: value for key, value in wire["engine"].items() if key not in ("imagePullPolicy",)
    }
    shaping = {
        "rendering": RENDERING,
        "model": {k: v for k, v in wire["model"].items() if k not in ("config", "configRef")},
        "config": model_config,
        "engine": engine,
        "kvCache": wire.get("kvCache", {}),
        "budget": wire.get("budget", {}),
        "workload": _sizing_part(wire.get("workload")),
        "pools": pools,
    }
    return names.digest(json.dumps(shaping, sort_keys=True, separators=(",", ":"), default=str))


def _sizing_part(workload: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Leave out what only judges a plan."""
    if workload is None:
        return None
    return {key: value for key, value in workload.items() if key not in _NOT_SIZING}
