"""How the engine divides a tensor over GPUs, by its name in the checkpoint.

Names differ by family and modules' names hardly do, so the module that a tensor belongs to decides.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.budget.config_keys import names


class Role(StrEnum):
    """What becomes of a tensor on each GPU of a tensor parallel group."""

    EMBEDDING = "embedding"  # divided by its padded vocabulary; on the first stage
    HEAD = "head"  # as an embedding; on the last stage, and not kept where both are tied
    DIVIDED = "divided"
    KV = "kv"  # divided by KV heads, of which each GPU holds one at least
    QKV = "qkv"  # queries, keys and values in one
    EXPERTS = "experts"
    WHOLE = "whole"  # on every GPU


class Part(StrEnum):
    """What a tensor belongs to that is in no layer of the decoder."""

    OUTER = "outer"
    DRAFT = "draft"  # layers for multi-token prediction: loaded only where they draft
    TOWER = "tower"  # of images, sound or video


@dataclass(frozen=True)
class Place:
    """Where a tensor belongs: a layer's index or a part, and its role there."""

    within: int | Part
    role: Role


_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks)\.(\d{1,5})\.")
_TOWER_WORDS = names("vision visual vit image images audio speech video multi mm mlp1")
_DRAFT = re.compile(r"(?:^|\.)(?:mtp|mtp_layers|nextn)\.")
_EMBEDDINGS = names(
    """embed_tokens embed_tokens_per_layer wte word_embeddings tok_embeddings embeddings embed
    embedding embed_in"""
)
_HEADS = names("lm_head embed_out output head")
_KV = names("k_proj v_proj key value key_proj value_proj wk wv")
_QKV = names("qkv_proj qkv query_key_value c_attn Wqkv wqkv W_pack")
# Projections into a latent, routers and what picks tokens serve all heads or experts.
_WHOLE = names(
    """q_a_proj kv_a_proj kv_a_proj_with_mqa wq_a wkv_a wkv gate router shared_expert_gate
    e_score_correction_bias fc1_latent_proj fc2_latent_proj eh_proj enorm hnorm"""
)
_WHOLE_WITHIN = names("indexer compressor")
_NORM_WORDS = names("norm layernorm norm1 norm2 ln ln_f rmsnorm")
# The bias of a projection whose inputs are divided is added once, on every GPU.
_INTO_HIDDEN = names("o_proj down_proj out_proj c_proj dense dense_4h_to_h wo w2 fc2")
_SUFFIX = re.compile(
    r"^(?:bias|weight|q?weight_\w+|weight_packed|scales?|q?zeros|qweight|g_idx|\w+_scale|absmax)$"
)


def of(name: str) -> Place:
    """Return where a tensor belongs."""
    components = name.split(".")
    if any(_TOWER_WORDS.intersection(one.split("_")) for one in components):
        return Place(Part.TOWER, Role.DIVIDED)
    layer = _LAYER.search(name)
    if _DRAFT.search(name):
        return Place(Part.DRAFT, _within_layer(components))
    if layer is None:
        return Place(Part.OUTER, _outside(components))
    return Place(int(layer[1]), _within_layer(components))


def _module(components: list[str]) -> str:
    """Return the last component that names no kind of data."""
    modules = [one for one in components if not _SUFFIX.match(one)]
    return modules[-1] if modules else components[-1]


def _outside(components: list[str]) -> Role:
    module = _module(components)
    if module in _EMBEDDINGS:
        return Role.EMBEDDING
    return Role.HEAD if module in _HEADS else Role.WHOLE


def _within_layer(components: list[str]) -> Role:
    module = _module(components)
    if module in _EMBEDDINGS:  # a draft's copies, beside those that it shares
        return Role.EMBEDDING
    if module in _HEADS:
        return Role.HEAD
    if "experts" in components:
        return Role.EXPERTS
    if module in _WHOLE or _WHOLE_WITHIN.intersection(components) or _is_norm(module):
        return Role.WHOLE
    if module in _INTO_HIDDEN and components[-1] == "bias":
        return Role.WHOLE
    if module in _KV:
        return Role.KV
    return Role.QKV if module in _QKV else Role.DIVIDED


def _is_norm(module: str) -> bool:
    return bool(_NORM_WORDS.intersection(module.split("_"))) or module.startswith("ln_")
