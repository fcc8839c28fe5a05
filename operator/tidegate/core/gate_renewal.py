"""The gates' configuration without a plan: as it is stored, with what holds now.

Slices and limits follow from a plan. Which share is turned away, and how the rest is divided over
the revisions that are there, does not: it must go on while a plan is refused.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tidegate.api import stored
from tidegate.api.gate_config import CONFIG_KEY, GateConfig, Serves, ShedShare, ShiftShare
from tidegate.core import gate_config, serves


def read(config_map: Mapping[str, Any]) -> GateConfig | None:
    """Return the configuration that a ConfigMap holds; None where it cannot be read."""
    try:
        return stored.read(GateConfig, json.loads((config_map.get("data") or {})[CONFIG_KEY]))
    except (KeyError, ValueError, ValidationError):
        return None


def shared(config: GateConfig, shed: ShedShare | None, shift: ShiftShare | None) -> GateConfig:
    """Return the configuration with other shares that are not served here."""
    return config.model_copy(update={"shed": shed, "shift": shift})


def weighted(
    config: GateConfig,
    ready: Mapping[tuple[str, str], int],
    shares: Mapping[str, int],
    of: Mapping[str, Serves],
) -> GateConfig:
    """Return the configuration with the weights that its revisions have now, and their names.

    Args:
        config: The stored one; its first revision is the one that was wanted.
        ready: Ready pods by (pool, revision).
        shares: What the rollout gives each revision, in thousandths; empty where ready pods decide.
        of: What each revision answers to, where its slices tell it; else what is stored holds.
    """
    if not config.revisions:
        return config
    serving = {key: count for key, count in ready.items() if key[0] in config.services}
    first = config.revisions[0].name
    revisions = gate_config.weights(first, config.slices, serving, shares)
    stored_of = {each.name: each.serves for each in config.revisions if each.serves}
    asked = Serves.model_construct(  # unchecked: several revisions have more names than one may
        models=config.models, max_model_len=config.max_model_len
    )
    told = serves.tell(revisions, first, {**stored_of, **of}, asked)
    return GateConfig.model_validate({**config.wire(), **told})
