"""The catalogue of models: the config.json of ids that can be sized without asking a hub.

`data/models/index.json` maps an id to its `file`, the config's `standing` and `source`, the keys
that are `missing`, and keys to add (`with`) for an id that differs from its file by them, such as
a quantised copy. One file per config, so only the one that is asked for is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tidegate.facts import package_data


@dataclass(frozen=True)
class ModelConfig:
    """A model's config.json.

    `standing` is `copied` (from the public file), `from memory` of it, or `reduced` (some keys of
    it). `missing` names keys that sizing may need and the catalogue lacks: a plan that needs one of
    them must ask for the model's own config.json.
    """

    model_id: str
    config: Mapping[str, Any]
    source: str
    standing: str
    missing: tuple[str, ...] = ()


@cache
def find(model_id: str) -> ModelConfig | None:
    """Return what is known of a model by its Hugging Face id, None for an id that is not."""
    row = _index().get(model_id)
    if row is None:
        return None
    config = package_data.load(f"models/{row['file']}.json") | row.get("with", {})
    return ModelConfig(model_id, config, row["source"], row["standing"], tuple(row["missing"]))


def known_ids() -> tuple[str, ...]:
    """Return every id that `find` knows, sorted."""
    return tuple(_index())


@cache
def _index() -> dict[str, dict[str, Any]]:
    index: dict[str, dict[str, Any]] = package_data.load("models/index.json")
    return index
