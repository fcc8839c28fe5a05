"""What is known of a model: its config.json, and what the files of its checkpoint tell.

The config is given inline, in a ConfigMap, or known by the catalogue; what is told of the
checkpoint stands in it under a key of our own.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidegate.api.model_spec import KeyRef, ModelSpec
from tidegate.api.reasons import Reason
from tidegate.core.budget import checkpoint
from tidegate.errors import Refused, Wait
from tidegate.facts import models

_RETRY_SECONDS = 10.0


def of(
    model: ModelSpec, config_text: str | None, index_text: str | None = None
) -> Mapping[str, Any]:
    """Return the config that the resource leads to.

    Args:
        model: What the resource says of the model.
        config_text: The value that `configRef` names; None when it is not there.
        index_text: The value that `weights.indexRef` names; None when it is not there.

    Raises:
        Wait: One of them names a ConfigMap or a key that does not exist (yet).
        Refused: A value is no JSON object, or the id is not in the catalogue.
    """
    config, ref = _config(model, config_text), model.weights.index_ref
    if ref is None:
        return config
    if index_text is None:
        raise _missing(ref, "model.safetensors.index.json of the checkpoint")
    return with_checkpoint(config, index_text, f"ConfigMap {ref.name}, key {ref.key}")


def with_checkpoint(config: Mapping[str, Any], text: str, where: str) -> dict[str, Any]:
    """Return a config with what an index or the headers of a checkpoint tell.

    Raises:
        Refused: The text is neither; `where` tells the reader which is wrong.
    """
    return {**config, checkpoint.KEY: checkpoint.summary(text, where)}


def _missing(ref: KeyRef, what: str) -> Wait:
    return Wait(
        Reason.REFERENCE_MISSING,
        f"the ConfigMap {ref.name} has no key {ref.key}, or does not exist; create it with the "
        f"{what}",
        _RETRY_SECONDS,
    )


def _config(model: ModelSpec, config_text: str | None) -> Mapping[str, Any]:
    if model.config is not None:
        return model.config
    if model.config_ref is not None:
        ref = model.config_ref
        if config_text is None:
            raise _missing(ref, "model's config.json")
        return parse(config_text, f"ConfigMap {ref.name}, key {ref.key}")
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
