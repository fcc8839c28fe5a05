"""The draft of speculative decoding: a small model beside the model, on the last pipeline stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget import config_keys
from tidegate.core.budget import shape as model_shape
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import Layer, ModelShape
from tidegate.errors import Refused

_WITHOUT_LAYERS = ("ngram", "ngram_gpu", "suffix")
_OWN_MODEL = ("eagle", "eagle3", "draft_model")
_FIELD = "spec.engine.speculative"


@dataclass(frozen=True)
class Draft:
    """The draft's layers, all of which keep KV, and its own shape where it is a model by itself."""

    method: str
    layers: tuple[Layer, ...]
    shape: ModelShape | None


def read(shape: ModelShape, engine: EngineConfig) -> Draft | None:
    """Return the draft, or None where speculation needs no layers of its own.

    Raises:
        Refused: SPECULATION_INVALID, the model has no such draft or the draft's shape is unknown;
            or the draft's config makes no sense.
    """
    speculative = engine.speculative
    if speculative is None or speculative.method in _WITHOUT_LAYERS:
        return None
    if speculative.method == "mtp":
        return _from_the_checkpoint(shape)
    if speculative.method not in _OWN_MODEL:
        _refuse(f"method {speculative.method} is not one that can be sized", f"{_FIELD}.method")
    if speculative.draft is None:
        _refuse(
            f"method {speculative.method} needs the draft's config.json to be sized",
            f"{_FIELD}.config",
        )
    own = _own_shape(speculative.draft)
    return Draft(speculative.method, own.layers, own)


def _from_the_checkpoint(shape: ModelShape) -> Draft:
    """Multi-token prediction: one layer like the last, however many tokens it looks ahead."""
    if shape.draft_layers < 1:
        _refuse(
            "method mtp needs a model whose config.json has num_nextn_predict_layers",
            f"{_FIELD}.method",
        )
    if shape.model_type.startswith("mimo"):
        config_keys.not_sized(["model_type"], "the draft layer attends to a window")
    return Draft("mtp", shape.layers[-1:], None)


def _own_shape(config: Mapping[str, Any]) -> ModelShape:
    try:
        return model_shape.read(config)
    except Refused as refused:
        raise Refused(refused.reason, f"the draft: {refused.message}", f"{_FIELD}.config") from None


def _refuse(message: str, field: str) -> NoReturn:
    raise Refused(Reason.SPECULATION_INVALID, message, field)
