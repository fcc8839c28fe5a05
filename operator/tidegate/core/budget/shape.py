"""The shape of a model: what its config.json says about the bytes that it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.core.budget import (
    checkpoint,
    config_keys,
    feed_forward,
    layer_kinds,
    lengths,
    modalities,
    quantization,
    recurrent_config,
    shared_blocks,
    structure,
    text_part,
)
from tidegate.core.budget.checkpoint import Checkpoint
from tidegate.core.budget.feed_forward import MLP, Absent
from tidegate.core.budget.mixers import Attention, AttentionMixer, Mixer
from tidegate.core.budget.quantization import Quantization
from tidegate.core.budget.recurrent import Recurrent

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
# The engine counts these by another key: one of two attentions in each layer.
_LAYERS_OF_TYPE = {"longcat_flash": ("num_layers",)}
# What their layers for multi-token prediction keep is not known.
_DRAFT_IS_NOT_SIZED = ("step3p5", "minimax_m3", "minimax_m3_text")
_DRAFT_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
_DRAFT_LAYERS_BY_DEFAULT = {"qwen3_next": 1, "qwen3_5_text": 1, "qwen3_5_moe_text": 1}
_DTYPES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}
_TIED_BY_DEFAULT = (
    *("gemma", "cohere", "gpt2", "opt", "bloom", "falcon", "starcoder2", "smollm3"),
    *("lfm2", "mamba"),
)
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ChatGLM")
_MOST_LAYERS = 10_000
# The engine refuses float16 for these: their numbers leave its range.
_NOT_IN_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")


@dataclass(frozen=True)
class Layer:
    """One layer of the decoder: what it mixes tokens with, and its feed-forward part.

    `mlp` is None where the config does not tell its size.
    """

    mixers: tuple[Mixer, ...]
    mlp: MLP | None

    @property
    def attention(self) -> Attention | None:
        """The attention with keys and values of each head; None where the layer has none."""
        return next((mixer for mixer in self.mixers if isinstance(mixer, Attention)), None)


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only model, layer by layer.

    `hidden_size` and `vocab_size` are None where the config (an abridged one) does not tell them;
    the KV cache needs neither. `mtp_layers` are the layers for multi-token prediction that the
    checkpoint brings along. `state_dtype` is what recurrent layers keep their state in, None for
    the model's own. `beside_layers_elements` are embeddings that layers have for themselves, and
    blocks that they share.
    `vision` is the config of the vision tower, `modalities` what the model takes beside text;
    `images_both_ways` says that an image's tokens attend to each other in both directions.
    `max_model_len` is the length that the engine takes by itself, `longest_model_len` the longest
    that may be asked for; where the config states no length (`length_is_known`), the first is what
    the engine assumes, and nothing is a bound.
    `target_hidden_size` is of the model whose hidden states a draft reads. `checkpoint` has what
    its files tell, where they are given.
    """

    architecture: str
    model_type: str
    dtype: str
    hidden_size: int | None
    vocab_size: int | None
    tied_embeddings: bool
    layers: tuple[Layer, ...]
    max_model_len: int
    longest_model_len: int
    mtp_layers: tuple[Layer, ...] = ()
    predicted_tokens: int = 0
    draft_vocab_size: int | None = None
    quantization: Quantization | None = None
    vision: Mapping[str, Any] | None = None
    state_dtype: str | None = None
    caps_scores: bool = False
    beside_layers_elements: int = 0
    modalities: tuple[str, ...] = ()
    images_both_ways: bool = False
    is_stable_in_float16: bool = True
    length_is_known: bool = True
    target_hidden_size: int | None = None
    checkpoint: Checkpoint | None = None

    @property
    def layer_count(self) -> int:
        """Number of decoder layers, the draft's not included."""
        return len(self.layers)

    @property
    def is_attention_free(self) -> bool:
        """Tell whether all layers are recurrent; the engine then caches prefixes only if asked."""
        return not any(
            isinstance(mixer, AttentionMixer) for layer in self.kinds for mixer in layer.mixers
        )

    @property
    def draft_layers(self) -> int:
        """Number of layers for multi-token prediction."""
        return len(self.mtp_layers)

    @cached_property
    def kinds(self) -> tuple[Layer, ...]:
        """The layers that differ from each other, in order: few, so that sums go over them."""
        return tuple(dict.fromkeys(self.layers))

    @cached_property
    def recurrent(self) -> tuple[Recurrent, ...]:
        """The recurrent mixers that differ from each other; empty if there are none."""
        mixers = (mixer for layer in self.kinds for mixer in layer.mixers)
        return tuple(dict.fromkeys(one for one in mixers if not isinstance(one, AttentionMixer)))

    @cached_property
    def kind_of(self) -> tuple[int, ...]:
        """For each layer, its place in `kinds`."""
        places = {layer: place for place, layer in enumerate(self.kinds)}
        return tuple(places[layer] for layer in self.layers)


def element_bytes(dtype: str) -> int:
    """Return the bytes of one element of a 16 or 32 bit dtype; `auto` counts as bfloat16."""
    return _DTYPES.get(dtype, 2)


def read(config: Mapping[str, Any]) -> ModelShape:
    """Return the shape that a config.json describes.

    Raises:
        Refused: MODEL_CONFIG_INVALID names a key that is missing or makes no sense;
            MODEL_NOT_SIZED names the keys of a structure that the rules do not cover.
    """
    text = text_part.of(config)
    model_type = text_part.model_type(config, text)
    outer_type = config_keys.text(config, "model_type") or model_type
    count = _layer_count(text, model_type)
    mlps = feed_forward.read(text, model_type, count)
    drafted = _draft_layer_count(text, model_type)
    mixed = structure.read(text, model_type, count, drafted)
    layers = tuple(Layer(mixers, mlp) for mixers, mlp in zip(mixed.layers, mlps, strict=True))
    length = lengths.read(text, model_type)
    return ModelShape(
        architecture=_architecture(config),
        model_type=model_type,
        dtype=_dtype(config, text),
        hidden_size=config_keys.integer(text, _HIDDEN),
        vocab_size=config_keys.integer(text, ("vocab_size", "padded_vocab_size")),
        tied_embeddings=_tied(config, text, model_type),
        layers=layers,
        max_model_len=length.default,
        longest_model_len=length.longest,
        mtp_layers=tuple(Layer(mixers, mlps[-1]) for mixers in mixed.draft),
        predicted_tokens=_predicted_tokens(model_type, drafted),
        draft_vocab_size=config_keys.integer(text, ("draft_vocab_size",)),
        quantization=quantization.read(config, text),
        vision=config_keys.mapping(config, "vision_config"),
        state_dtype=recurrent_config.state_dtype(text, model_type),
        beside_layers_elements=(
            count * _layer_embedding(text) + shared_blocks.elements(text, model_type)
        ),
        caps_scores=bool(text.get("attn_logit_softcapping")),
        modalities=modalities.read(config, text),
        images_both_ways=modalities.are_both_ways(config, text),
        is_stable_in_float16=outer_type not in _NOT_IN_FLOAT16,
        target_hidden_size=config_keys.integer(text, ("target_hidden_size",)),
        length_is_known=length.is_known,
        checkpoint=checkpoint.read(config, count, _with_weights(layers)),
    )


def _with_weights(layers: Sequence[Layer]) -> list[int]:
    """Return the indices of layers that have weights: a search may have left some nothing."""
    return [
        index
        for index, layer in enumerate(layers)
        if layer.mixers or not isinstance(layer.mlp, Absent)
    ]


def _layer_count(text: Mapping[str, Any], model_type: str) -> int:
    keys = (*_LAYERS_OF_TYPE.get(model_type, ()), *_LAYERS)
    is_told = config_keys.present(text, keys) is not None
    layers = (not is_told and layer_kinds.count(text)) or config_keys.required(text, keys)
    if layers > _MOST_LAYERS:
        config_keys.invalid("num_hidden_layers", f"must be at most {_MOST_LAYERS}, not {layers}")
    return layers


def _draft_layer_count(text: Mapping[str, Any], model_type: str) -> int:
    layers = config_keys.integer(text, _DRAFT_LAYERS, at_least=0)
    if model_type in _DRAFT_IS_NOT_SIZED:
        return 0
    if layers is None:
        return _DRAFT_LAYERS_BY_DEFAULT.get(model_type, 0)
    if layers > _MOST_LAYERS:
        config_keys.invalid("num_nextn_predict_layers", f"must be at most {_MOST_LAYERS}")
    return layers


def _predicted_tokens(model_type: str, draft_layers: int) -> int:
    """Return the tokens that the layers predict: the engine runs only the first of some."""
    return min(1, draft_layers) if model_type.startswith("mimo_v2") else draft_layers


def _layer_embedding(text: Mapping[str, Any]) -> int:
    """Return the elements of the embeddings that every layer has for itself."""
    width = config_keys.integer(text, ("hidden_size_per_layer_input",), at_least=0) or 0
    return width * (config_keys.integer(text, ("vocab_size_per_layer_input",)) or 0)


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    if names is None:
        return ""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        config_keys.invalid("architectures", "must be a list of names")
    if not names:
        return ""
    if not any(mark in name for name in names for mark in _GENERATES):
        config_keys.not_sized(["architectures"], f"{names[0]} does not generate text")
    return str(names[0])


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str:
    """Return the checkpoint's dtype as the engine looks for it; 32 bit ones are run in 16 bit."""
    parts = (config, text, config_keys.mapping(config, "vision_config") or {})
    for part in parts:
        key = config_keys.present(part, ("dtype", "torch_dtype"))
        if key is not None:
            name = (config_keys.text(part, key) or "").removeprefix("torch.")
            if name not in _DTYPES:
                config_keys.invalid(key, f"must be one of {', '.join(_DTYPES)}, not {name!r}"[:200])
            return "float16" if name in ("float16", "half") else "bfloat16"
    return "bfloat16"


def _tied(config: Mapping[str, Any], text: Mapping[str, Any], model_type: str) -> bool:
    default = model_type.startswith(_TIED_BY_DEFAULT)
    outer = config_keys.flag(config, "tie_word_embeddings", default)
    return config_keys.flag(text, "tie_word_embeddings", outer)
