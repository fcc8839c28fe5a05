"""The files that say what a model is: its config.json, and those of its checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.api.model_spec import ModelSpec
from tidegate.cli.inputs import documents
from tidegate.cli.planning import weights_index


@dataclass(frozen=True)
class ModelFiles:
    """What `--config` and `--weights-index` name; both go before what a resource says."""

    config: str | None = None
    weights_index: str | None = None

    def of_resource(self, model: ModelSpec, beside: Sequence[dict[str, Any]]) -> Mapping[str, Any]:
        """Return what is known of a resource's model.

        Raises:
            Invalid: A file cannot be read.
            Refused: One of them makes no sense, or nothing tells the config.
            Wait: The resource names a ConfigMap that does not stand beside it.
        """
        if self.weights_index is not None:
            weights = model.weights.model_copy(update={"index_ref": None})
            model = model.model_copy(update={"weights": weights})
        found = documents.config_of(model, beside, self.config)
        return weights_index.added(found, self.weights_index)
