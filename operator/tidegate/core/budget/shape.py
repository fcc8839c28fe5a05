"""The shape of a model: what its config.json says about the bytes that it needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FullAttention:
    """Attention of a layer over all tokens so far: MHA, GQA or MQA by its number of KV heads."""

    heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    bias_elements: int = 0
    norm_elements: int = 0


Attention = FullAttention


@dataclass(frozen=True)
class DenseMLP:
    """A feed-forward block: `projections` matrices of hidden x intermediate (3 when gated)."""

    intermediate_size: int
    projections: int = 3


@dataclass(frozen=True)
class MoE:
    """A mixture of experts: a router, routed experts and at times shared ones."""

    experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0


@dataclass(frozen=True)
class Layer:
    """One layer of the decoder."""

    attention: Attention
    mlp: DenseMLP | MoE


@dataclass(frozen=True)
class ModelShape:
    """A decoder-only model, layer by layer."""

    architecture: str
    dtype: str
    hidden_size: int
    vocab_size: int
    tied_embeddings: bool
    layers: tuple[Layer, ...]
    max_model_len: int
    mtp_layers: int = 0
    quantization: Mapping[str, Any] | None = None


def read(config: Mapping[str, Any]) -> ModelShape:
    """Return the shape that a config.json describes.

    Raises:
        Refused: MODEL_CONFIG_INVALID names a key that is missing or makes no sense;
            MODEL_NOT_SIZED names the keys of a structure that the rules do not cover.
    """
    raise NotImplementedError
