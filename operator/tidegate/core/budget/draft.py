"""The draft of speculative decoding: a small model beside the model, on the last pipeline stage."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget import quantization
from tidegate.core.budget import shape as model_shape
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.mixers import Attention, Mixer
from tidegate.core.budget.shape import Layer, ModelShape
from tidegate.errors import Refused

_WITHOUT_LAYERS = ("ngram", "ngram_gpu", "suffix")
_OWN_MODEL = ("eagle", "eagle3", "draft_model")
# An EAGLE draft is one layer, seldom a few. Its config.json does not always say what it is.
_MOST_EAGLE_LAYERS = 4
_FIELD = "spec.engine.speculative"


@dataclass(frozen=True)
class Draft:
    """The draft's layers, all of which keep KV, and its own shape where it is a model by itself.

    `retained_tokens` are kept below a sliding window, since the draft reads them again.
    """

    method: str
    layers: tuple[Layer, ...]
    shape: ModelShape | None
    retained_tokens: int = 0


def method_of(asked: str, config: Mapping[str, Any]) -> str:
    """Return the method that the engine takes: a draft with layers for it is one of mtp."""
    return "mtp" if asked == "draft_model" and predicted_by(config) else asked


def predicted_by(config: Mapping[str, Any]) -> int:
    """Return the tokens that the config's own layers for multi-token prediction predict."""
    return _own_shape(config).predicted_tokens


def reads_hidden_states(engine: EngineConfig) -> bool:
    """Tell whether the draft continues from the model's own hidden states (EAGLE and MTP)."""
    return engine.speculative is not None and engine.speculative.method in (
        "eagle",
        "eagle3",
        "mtp",
    )


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
        _require_same(shape, speculative.draft)
        return _with_window(shape, _from_the_checkpoint(shape, speculative.tokens))
    if speculative.method not in _OWN_MODEL:
        _refuse(f"method {speculative.method} is not one that can be sized", f"{_FIELD}.method")
    if speculative.draft is None:
        _refuse(
            f"method {speculative.method} needs the draft's config.json to be sized",
            f"{_FIELD}.config",
        )
    own = _own_shape(speculative.draft)
    _require_alike(shape, own, speculative.method)
    quantization.require_possible(own.quantization, speculative.quantization, f"{_FIELD}.config")
    return _with_window(shape, Draft(speculative.method, own.layers, own))


def _require_same(shape: ModelShape, config: Mapping[str, Any] | None) -> None:
    """Check that a draft for multi-token prediction is the model's own."""
    if config is not None and _own_shape(config).mtp_layers != shape.mtp_layers:
        _refuse(
            "the draft has not the model's layers for multi-token prediction, and is not sized; "
            "leave its model out for those of the model",
            f"{_FIELD}.model",
        )


def _require_alike(shape: ModelShape, own: ModelShape, method: str) -> None:
    """Check a draft beside its target, as far as both configs tell."""
    if method == "draft_model":
        if None not in (shape.vocab_size, own.vocab_size) and shape.vocab_size != own.vocab_size:
            _refuse(
                f"the draft has a vocabulary of {own.vocab_size} and the model one of "
                f"{shape.vocab_size}, and the engine wants them alike; use a draft of the same "
                "family",
                f"{_FIELD}.model",
            )
        return
    reads = own.target_hidden_size or own.hidden_size
    if None not in (shape.hidden_size, reads) and shape.hidden_size != reads:
        _refuse(
            f"the draft continues from hidden states of {reads} and the model's have "
            f"{shape.hidden_size}; use a draft that was trained for this model",
            f"{_FIELD}.model",
        )
    is_marked = "eagle" in f"{own.architecture} {own.model_type}".lower()
    if not is_marked and own.draft_vocab_size is None and own.layer_count > _MOST_EAGLE_LAYERS:
        _refuse(
            f"a model of {own.layer_count} layers is no EAGLE draft; use method draft_model, or a "
            "draft that was trained for this model",
            f"{_FIELD}.method",
        )


def _with_window(shape: ModelShape, drafted: Draft) -> Draft:
    """Give the draft the window of a model whose layers all have it, as the engine does."""
    windows = {
        mixer.window if isinstance(mixer, Attention) else None
        for layer in shape.kinds
        for mixer in layer.mixers
    }
    window = windows.pop() if len(windows) == 1 else None
    if window is None:
        return drafted

    def windowed(mixer: Mixer) -> Mixer:
        if isinstance(mixer, Attention) and mixer.window is None:
            return replace(mixer, window=window)
        return mixer

    layers = (replace(layer, mixers=tuple(map(windowed, layer.mixers))) for layer in drafted.layers)
    return replace(drafted, layers=tuple(layers))


def _from_the_checkpoint(shape: ModelShape, tokens: int) -> Draft:
    """Multi-token prediction: the checkpoint's own layers, however many tokens are drafted.

    Each of several layers looks one token further ahead than the one before it.
    """
    if not shape.mtp_layers:
        _refuse(
            "method mtp needs a model whose config.json has num_nextn_predict_layers, and whose "
            "draft can be sized",
            f"{_FIELD}.method",
        )
    predicted = shape.predicted_tokens
    if tokens > predicted and tokens % predicted:
        more = -(-tokens // predicted) * predicted
        _refuse(
            f"{tokens} tokens must be at most the {predicted} that the model's layers predict, or "
            f"a multiple; {predicted} or {more} work",
            f"{_FIELD}.tokens",
        )
    several = min(shape.draft_layers, tokens) > 1
    return Draft("mtp", shape.mtp_layers, None, tokens - 1 if several else 0)


def _own_shape(config: Mapping[str, Any]) -> ModelShape:
    try:
        return model_shape.read(config)
    except Refused as refused:
        raise Refused(refused.reason, f"the draft: {refused.message}", f"{_FIELD}.config") from None


def _refuse(message: str, field: str) -> NoReturn:
    raise Refused(Reason.SPECULATION_INVALID, message, field)
