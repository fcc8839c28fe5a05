"""The shape of a model: what its config.json says about the bytes that it needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.core.budget import config_keys, feed_forward, quantization, structure
from tidegate.core.budget.feed_forward import MLP
from tidegate.core.budget.quantization import Quantization

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
# The engine takes the first that is present (its model configuration's own order).
_KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
_DRAFT_LAYERS = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")
_DTYPES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}
# Where config.json is silent, the engine's model library fills these in (transformers 5).
_LIBRARY_KV_HEADS = {
    "mistral": 8,
    "mixtral": 8,
    "phimoe": 8,
    "qwen2": 32,
    "qwen3": 32,
    "qwen3_moe": 4,
    "glm": 2,
    "glm4": 2,
    "starcoder2": 2,
    "seed_oss": 8,
    "smollm3": 4,
}
_LIBRARY_HEAD_DIM = {"qwen3": 128, "glm": 128, "glm4": 128, "seed_oss": 128, "ernie4_5": 128}
_TIED_BY_DEFAULT = ("gemma", "cohere", "gpt2", "opt", "bloom", "falcon", "starcoder2", "smollm3")
_GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ChatGLM")
_LENGTH_WHEN_UNKNOWN = 2048
# Scalings whose length config.json already contains; the engine multiplies by the others' factor.
_LENGTH_IS_SCALED = (
    "su",
    "longrope",
    "llama3",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
)


@dataclass(frozen=True)
class FullAttention:
    """Attention of a layer over all tokens so far: MHA, GQA or MQA by its number of KV heads."""

    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    has_bias: bool = False


# Further kinds of attention join here.
Attention = FullAttention


@dataclass(frozen=True)
class Layer:
    """One layer of the decoder; `mlp` is None where the config does not tell its size."""

    attention: Attention
    mlp: MLP | None


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only model, layer by layer.

    `hidden_size` and `vocab_size` are None where the config (an abridged one) does not tell them;
    the KV cache needs neither. `draft_layers` are the layers for multi-token prediction that the
    checkpoint brings along. `vision` is the config of the vision tower.
    """

    architecture: str
    model_type: str
    dtype: str
    hidden_size: int | None
    vocab_size: int | None
    tied_embeddings: bool
    layers: tuple[Layer, ...]
    max_model_len: int
    draft_layers: int = 0
    draft_vocab_size: int | None = None
    quantization: Quantization | None = None
    vision: Mapping[str, Any] | None = None

    @property
    def layer_count(self) -> int:
        """Number of decoder layers, the draft's not included."""
        return len(self.layers)

    @cached_property
    def kinds(self) -> tuple[Layer, ...]:
        """The layers that differ from each other, in order: few, so that sums go over them."""
        return tuple(dict.fromkeys(self.layers))

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
    text = _text_config(config)
    model_type = config_keys.text(text, "model_type") or ""
    structure.require_full_attention(text, model_type)
    attention = _attention(text, model_type)
    layers = config_keys.required(text, _LAYERS)
    if layers > 10_000:
        config_keys.invalid("num_hidden_layers", f"must be at most 10000, not {layers}")
    return ModelShape(
        architecture=_architecture(config),
        model_type=model_type,
        dtype=_dtype(config, text),
        hidden_size=config_keys.integer(text, _HIDDEN),
        vocab_size=config_keys.integer(text, ("vocab_size", "padded_vocab_size")),
        tied_embeddings=_tied(config, text, model_type),
        layers=tuple(Layer(attention, mlp) for mlp in feed_forward.read(text, model_type, layers)),
        max_model_len=_max_model_len(config, text),
        draft_layers=config_keys.integer(text, _DRAFT_LAYERS, at_least=0) or 0,
        draft_vocab_size=config_keys.integer(text, ("draft_vocab_size",)),
        quantization=quantization.read(config, text),
        vision=config_keys.mapping(config, "vision_config"),
    )


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of the config that describes the language model."""
    if not isinstance(config, Mapping):
        config_keys.invalid("config", "must be an object")
    thinker = config_keys.mapping(config, "thinker_config")
    if thinker is not None:
        return _text_config(thinker)
    key = config_keys.present(config, _TEXT_CONFIGS)
    if key is None:
        return config
    return config_keys.mapping(config, key) or config


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
    """Return the dtype that the engine takes for `auto`; 32 bit checkpoints are run in 16 bit."""
    for part in (text, config):
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


def _attention(text: Mapping[str, Any], model_type: str) -> FullAttention:
    heads = config_keys.required(text, _HEADS)
    kv_heads = _kv_heads(text, model_type, heads)
    head_dim = _head_dim(text, model_type, heads)
    if kv_heads > heads or heads % kv_heads:
        config_keys.invalid(
            config_keys.present(text, _KV_HEADS) or "num_key_value_heads",
            f"({kv_heads}) must divide num_attention_heads ({heads})",
        )
    has_bias = config_keys.flag(text, "attention_bias", model_type.startswith("qwen2"))
    return FullAttention(heads, kv_heads, head_dim, head_dim, has_bias)


def _kv_heads(text: Mapping[str, Any], model_type: str, heads: int) -> int:
    if config_keys.flag(text, "multi_query") and not config_keys.flag(
        text, "new_decoder_architecture"
    ):
        return 1
    return config_keys.integer(text, _KV_HEADS) or _LIBRARY_KV_HEADS.get(model_type, heads)


def _head_dim(text: Mapping[str, Any], model_type: str, heads: int) -> int:
    explicit = config_keys.integer(
        text, ("head_dim", "hidden_size_per_head", "kv_channels"), at_least=0
    )
    if explicit:
        return explicit
    if model_type in _LIBRARY_HEAD_DIM:
        return _LIBRARY_HEAD_DIM[model_type]
    head_dim = config_keys.required(text, _HIDDEN) // heads
    if head_dim == 0:
        config_keys.invalid("num_attention_heads", "is larger than hidden_size")
    return head_dim


def _max_model_len(config: Mapping[str, Any], text: Mapping[str, Any]) -> int:
    """Return the engine's default for --max-model-len, rope scaling included."""
    lengths = [config_keys.integer(text, (key,)) for key in _LENGTHS]
    length = min((one for one in lengths if one is not None), default=_LENGTH_WHEN_UNKNOWN)
    rope = config_keys.mapping(text, "rope_parameters") or config_keys.mapping(text, "rope_scaling")
    if not rope:
        return length
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    if rope_type == "longrope":
        return (
            config_keys.integer(text, ("original_max_position_embeddings",))
            or config_keys.integer(config, ("original_max_position_embeddings",))
            or length
        )
    factor = rope.get("factor")
    if rope_type in _LENGTH_IS_SCALED or factor is None:
        return length
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1e6:
        config_keys.invalid("rope_scaling", f"has no sensible factor: {factor!r}"[:200])
    return math.floor(length * factor)
