"""The feed-forward part of a model's layers: dense blocks and mixtures of experts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.budget import config_keys

_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
_EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_k",
)
_EXPERT_SIZE = ("moe_intermediate_size", "expert_intermediate_size")
_SHARED_SIZE = (
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "moe_shared_expert_intermediate_size",
)
_SHARED_COUNT = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
_INTERMEDIATE = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
# Two matrices instead of three: no gate beside the first projection.
_UNGATED = (
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "gptj",
    "opt",
    "bloom",
    "falcon",
    "mpt",
    "starcoder2",
    "nemotron",
    "arcee",
    "persimmon",
    "apertus",
)


@dataclass(frozen=True)
class Dense:
    """A feed-forward block of `projections` matrices, each hidden x intermediate."""

    intermediate_size: int
    projections: int = 3


@dataclass(frozen=True)
class Experts:
    """A router, routed experts of which each token takes some, and at times shared ones."""

    experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0


MLP = Dense | Experts


def read(text: Mapping[str, Any], model_type: str, layers: int) -> list[MLP | None]:
    """Return the feed-forward block of each layer; None where the config does not tell its size.

    Raises:
        Refused: a key makes no sense.
    """
    dense = _dense(text, model_type)
    experts = _experts(text)
    if experts is None:
        return [dense] * layers
    sparse = _sparse_layers(text, layers)
    return [experts if index in sparse else dense for index in range(layers)]


def _dense(text: Mapping[str, Any], model_type: str) -> Dense | None:
    size = config_keys.integer(text, _INTERMEDIATE)
    ungated = model_type in _UNGATED or model_type == "phi"
    if size is None and ungated:
        hidden = config_keys.integer(text, ("hidden_size", "n_embd", "d_model"))
        size = 4 * hidden if hidden else None
    return Dense(size, 2 if ungated else 3) if size else None


def _experts(text: Mapping[str, Any]) -> Experts | None:
    count = config_keys.integer(text, _EXPERTS, at_least=0) or 0
    if count < 2:
        return None
    size = config_keys.integer(text, _EXPERT_SIZE) or config_keys.integer(text, _INTERMEDIATE)
    if size is None:
        return None
    shared = config_keys.integer(text, _SHARED_SIZE, at_least=0)
    if shared is None:
        shared = size * (config_keys.integer(text, _SHARED_COUNT, at_least=0) or 0)
    per_token = config_keys.integer(text, _EXPERTS_PER_TOKEN) or 1
    return Experts(count, min(per_token, count), size, shared)


def _sparse_layers(text: Mapping[str, Any], layers: int) -> frozenset[int]:
    """Return the indices of the layers that have experts."""
    first_dense = config_keys.integer(text, ("first_k_dense_replace",), at_least=0) or 0
    dense_only = text.get("mlp_only_layers") or []
    if not isinstance(dense_only, list):
        config_keys.invalid("mlp_only_layers", "must be a list of layer indices")
    frequency = text.get("moe_layer_freq")
    if isinstance(frequency, list):
        return frozenset(index for index, is_sparse in enumerate(frequency) if is_sparse)
    step = config_keys.integer(text, ("decoder_sparse_step",), at_least=0)
    if step is None:
        step = config_keys.integer(text, ("interleave_moe_layer_step",)) or 1
    if step == 0:
        return frozenset()
    return frozenset(
        index
        for index in range(first_dense, layers)
        if (index + 1) % step == 0 and index not in dense_only
    )
