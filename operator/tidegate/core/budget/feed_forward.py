"""The feed-forward part of a model's layers: dense blocks and mixtures of experts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.budget import config_keys, expert_layers, shared_blocks
from tidegate.core.budget.layer_kinds import ALL_RECURRENT, PATTERN_KEY

_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
_EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_k",
    "moe_top_k",
)
_EXPERT_SIZE = ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size")
_LATENT_SIZE = ("moe_latent_size", "routed_expert_hidden_size")
_SHARED_SIZE = (
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "share_expert_dim",
)
_SHARED_COUNT = (
    "n_shared_experts",
    "num_shared_experts",
    "num_shared_expert",
    "moe_num_shared_experts",
)
_INTERMEDIATE = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "block_ff_dim")
_DENSE_BESIDE_EXPERTS = ("intermediate_size_mlp", "dense_intermediate_size")
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
    "nemotron_h",
    "arcee",
    "persimmon",
    "apertus",
)
_DENSE_TWICE_BESIDE = ("longcat_flash",)  # two dense blocks stand beside the experts of a layer
_SHARES_ONE_EXPERT = ("llama4_text",)  # of the size of a routed one, in each layer of experts
_FEED_FORWARD_MULTIPLE = 256


@dataclass(frozen=True)
class Dense:
    """A feed-forward block of `projections` matrices, each hidden x intermediate."""

    intermediate_size: int
    projections: int = 3


@dataclass(frozen=True)
class Experts:
    """A router, routed experts of which each token takes some, and at times shared ones.

    Routed experts work on vectors of `latent_size` where that is set, of the hidden size else.
    """

    experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    projections: int = 3
    latent_size: int | None = None


@dataclass(frozen=True)
class Absent:
    """No feed-forward part: the layer mixes tokens and does nothing else."""

    intermediate_size: int = 0


MLP = Dense | Experts | Absent


def read(text: Mapping[str, Any], model_type: str, layers: int) -> list[MLP | None]:
    """Return the feed-forward part of each layer; None where the config does not tell its size.

    Raises:
        Refused: a key makes no sense.
    """
    if model_type in ALL_RECURRENT or model_type in shared_blocks.MODEL_TYPES:
        return [Absent()] * layers
    dense = _dense(text, model_type)
    experts = _experts(text, model_type)
    alone = _that_stand_alone(text)
    if alone is not None:
        parts = {"-": dense, "mlp": dense, "E": experts, "moe": experts}
        return ([parts.get(part, Absent()) for part in alone] + [Absent()] * layers)[:layers]
    if text.get("block_configs") is not None:
        return _of_blocks(text, layers)
    if isinstance(text.get("intermediate_size"), list):
        return _of_list(text, layers)
    if experts is None:
        return [dense] * layers
    sparse = expert_layers.read(text, layers)
    return [experts if index in sparse else dense for index in range(layers)]


def _that_stand_alone(text: Mapping[str, Any]) -> list[str] | None:
    """Return what each layer is where a layer has either a mixer or a feed-forward part."""
    spelled, listed = text.get(PATTERN_KEY), text.get("layers_block_type")
    if isinstance(spelled, str):
        return list(spelled)
    if isinstance(listed, list) and {"mlp", "moe"}.intersection(map(str, listed)):
        return list(map(str, listed))
    return None


def _dense(text: Mapping[str, Any], model_type: str) -> Dense | None:
    if isinstance(text.get("intermediate_size"), list):
        return None
    size = config_keys.integer(text, _DENSE_BESIDE_EXPERTS) or config_keys.integer(
        text, _INTERMEDIATE
    )
    if not _expert_count(text):  # some hybrids have a shared part alone
        size = config_keys.integer(text, ("shared_intermediate_size",)) or size
    ungated = model_type in _UNGATED or model_type == "phi"
    if size is None and ungated:
        hidden = config_keys.integer(text, ("hidden_size", "n_embd", "d_model"))
        size = 4 * hidden if hidden else None
    if size is not None and model_type == "lfm2":
        size = _adjusted(text, size)
    return Dense(size, 2 if ungated else 3) if size else None


def _adjusted(text: Mapping[str, Any], size: int) -> int:
    """Return two thirds of the size, rounded up: gated blocks have three matrices for two."""
    if not config_keys.flag(text, "block_auto_adjust_ff_dim", default=True):
        return size
    multiple = config_keys.integer(text, ("block_multiple_of",)) or _FEED_FORWARD_MULTIPLE
    return -(-(2 * size // 3) // multiple) * multiple


def _expert_count(text: Mapping[str, Any]) -> int:
    return config_keys.integer(text, _EXPERTS, at_least=0) or 0


def _experts(text: Mapping[str, Any], model_type: str) -> Experts | None:
    count = _expert_count(text)
    if count < 2:
        return None
    own_size = config_keys.integer(text, _EXPERT_SIZE)
    size = own_size or config_keys.integer(text, _INTERMEDIATE)
    if size is None:
        return None
    shared = config_keys.integer(text, _SHARED_SIZE, at_least=0)
    if shared is None:
        shared = size * (config_keys.integer(text, _SHARED_COUNT, at_least=0) or 0)
    if model_type in _SHARES_ONE_EXPERT:
        shared = size
    if model_type in _DENSE_TWICE_BESIDE:
        shared = 2 * (config_keys.integer(text, _INTERMEDIATE) or 0)
    if config_keys.flag(text, "enable_moe_block") and own_size:  # a dense block stands beside them
        shared = config_keys.integer(text, _INTERMEDIATE) or 0
    per_token = config_keys.integer(text, _EXPERTS_PER_TOKEN) or 1
    return Experts(
        count,
        min(per_token, count),
        size,
        shared,
        projections=2 if model_type in _UNGATED else 3,
        latent_size=config_keys.integer(text, _LATENT_SIZE),
    )


def _of_list(text: Mapping[str, Any], layers: int) -> list[MLP | None]:
    sizes = text["intermediate_size"]
    if len(sizes) != layers or not all(type(size) is int and size > 0 for size in sizes):
        config_keys.invalid("intermediate_size", "must have a whole number for each layer")
    return [Dense(size) for size in sizes]


def _of_blocks(text: Mapping[str, Any], layers: int) -> list[MLP | None]:
    """Return the parts of layers that were searched for one by one, as multiples of hidden."""
    hidden = config_keys.required(text, ("hidden_size",))
    blocks = text["block_configs"]
    if not isinstance(blocks, list):
        config_keys.invalid("block_configs", "must be a list with an entry for each layer")
    found: list[MLP | None] = []
    for block in blocks:
        part = config_keys.mapping(block, "ffn") if isinstance(block, Mapping) else None
        ratio = (part or {}).get("ffn_mult")
        if part is None or part.get("no_op") or part.get("replace_with_linear"):
            found.append(Absent())
        elif not isinstance(ratio, int | float) or not 0 < ratio < 1e3:
            config_keys.invalid("block_configs", f"has no sensible ffn_mult: {ratio!r}"[:200])
        else:
            size = int(2 * ratio * hidden / 3)
            rounded = -(-size // _FEED_FORWARD_MULTIPLE) * _FEED_FORWARD_MULTIPLE
            found.append(Dense(rounded))
    return (found + [None] * layers)[:layers]
