"""The model's config.json: given inline, in a ConfigMap, or known by the catalogue."""

import json
from collections.abc import Mapping
from typing import Any

from tidegate.api.model_spec import ModelSpec
from tidegate.api.reasons import Reason
from tidegate.errors import Refused, Wait
from tidegate.facts import models

_RETRY_SECONDS = 10.0


def of(model: ModelSpec, config_map_text: str | None) -> Mapping[str, Any]:
    """Return the config that the resource leads to.

    Args:
        model: What the resource says of the model.
        config_map_text: The value that `configRef` names; None when it is not there.

    Raises:
        Wait: `configRef` names a ConfigMap or a key that does not exist (yet).
        Refused: The value is no JSON object, or the id is not in the catalogue.
    """
    if model.config is not None:
        return model.config
    if model.config_ref is not None:
        ref = model.config_ref
        if config_map_text is None:
            raise Wait(
                Reason.REFERENCE_MISSING,
                f"the ConfigMap {ref.name} has no key {ref.key}, or does not exist; create it with "
                "the model's config.json",
                _RETRY_SECONDS,
            )
        return parse(config_map_text, f"ConfigMap {ref.name}, key {ref.key}")
    known = models.find(model.id)
    if known is None:
        raise Refused(
            Reason.MODEL_UNKNOWN,
            f"the catalogue does not know {model.id}; put its config.json in model.config, or in a "
            "ConfigMap that model.configRef names",
            "spec.model.id",
        )
    return known.config


def parse(text: str, where: str) -> dict[str, Any]:
    """Read a config.json; `where` tells the reader which one is wrong."""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise Refused(Reason.MODEL_CONFIG_INVALID, f"{where} is no JSON: {error}") from error
    if not isinstance(config, dict):
        raise Refused(Reason.MODEL_CONFIG_INVALID, f"{where} is JSON, but no object")
    return config
