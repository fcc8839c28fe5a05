"""values.schema.json: what Helm checks before it renders, so that a typo is told, not ignored."""

import json
from typing import Any

from tidegate.shell.chart.values import CHART_OWNED, ChartValues

_DRAFT = "http://json-schema.org/draft-07/schema#"
_DROPPED = ("title", "default")


def text() -> str:
    """Return values.schema.json."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def document() -> dict[str, Any]:
    """Return the schema; settings that the chart writes itself are no values."""
    generated = ChartValues.model_json_schema(by_alias=True)
    settings = generated["$defs"]["OperatorSettings"]["properties"]
    for name in CHART_OWNED:
        del settings[name]
    del generated["$defs"]["Webhook"]  # the settings' own, that nothing refers to any more
    # Helm puts `global` into the values of a chart that is part of another one
    generated["properties"]["global"] = {"type": "object"}
    cleaned: dict[str, Any] = _cleaned(generated)
    return {"$schema": _DRAFT, **cleaned}


def _cleaned(node: Any, *, are_names: bool = False) -> Any:
    """Drop what Helm does not read; `are_names` where the keys are names of fields, or patterns.

    A map whose keys have a pattern takes no other keys.
    """
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    if are_names:
        return {key: _cleaned(value) for key, value in node.items()}
    result = {
        key: _cleaned(value, are_names=key in ("properties", "$defs", "patternProperties"))
        for key, value in node.items()
        if key not in _DROPPED and not key.startswith("x-kubernetes")
    }
    if "patternProperties" in result:
        result.setdefault("additionalProperties", False)
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    return result
