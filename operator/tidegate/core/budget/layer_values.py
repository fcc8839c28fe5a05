"""What single layers have for themselves, by their index in config.json: heads, sizes, indexers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidegate.core.budget import config_keys
from tidegate.core.budget.mixers import Attention, Indexer

# Values of single layers by index, as the engine's model library writes them since version 5.
_LAYER_VALUES = "per_layer_config"
_HAS_INDEX = ("minimax_m3", "minimax_m3_text")
_INDEX = "sparse_attention_config"
_INDEX_BLOCK = 128


def keys_of(model_type: str) -> frozenset[str]:
    """Return the keys about single layers that are understood for a model type."""
    return frozenset({_LAYER_VALUES} | ({_INDEX} if model_type in _HAS_INDEX else set()))


def read(
    text: Mapping[str, Any], model_type: str, layers: int
) -> Callable[[Attention, int], Attention]:
    """Return a function that gives the attention of a layer what that layer has for itself.

    Raises:
        Refused: a key makes no sense.
    """
    group_sizes = _group_sizes(text)
    own_values = _own_values(text)
    indexed = _indexed(text, layers) if model_type in _HAS_INDEX else {}

    def of_layer(found: Attention, index: int) -> Attention:
        if group_sizes is not None and index < len(group_sizes):
            found = replace(found, kv_heads=found.heads // group_sizes[index])
        if index in indexed:
            found = replace(found, indexer=indexed[index])
        return _with_own_values(found, own_values[index]) if index in own_values else found

    return of_layer


def _indexed(text: Mapping[str, Any], layers: int) -> dict[int, Indexer]:
    """Return the indexers of sparse layers, by the index of the layer."""
    sparse = config_keys.inside(text, _INDEX)
    if sparse is None:
        config_keys.not_sized([_INDEX], "it does not tell which layers are sparse")
    listed = sparse.get(f"{_INDEX}.sparse_attention_freq")
    if not isinstance(listed, list) or len(listed) != layers:
        config_keys.invalid(_INDEX, "needs sparse_attention_freq with an entry for each layer")
    block = config_keys.required(sparse, (f"{_INDEX}.sparse_block_size",))
    if block != _INDEX_BLOCK:
        config_keys.not_sized([_INDEX], f"it reads blocks of {block} tokens")
    indexer = Indexer(
        config_keys.required(sparse, (f"{_INDEX}.sparse_num_index_heads",)),
        config_keys.required(sparse, (f"{_INDEX}.sparse_index_dim",)),
    )
    return {index: indexer for index, is_sparse in enumerate(listed) if is_sparse}


def _group_sizes(text: Mapping[str, Any]) -> list[int] | None:
    """Return the heads that share a KV head in each layer, where layers were searched for."""
    blocks = text.get("block_configs")
    if blocks is None:
        return None
    sizes = []
    for block in blocks:
        attention = config_keys.mapping(block, "attention") or {}
        sizes.append(config_keys.integer(attention, ("n_heads_in_group",)) or 1)
    return sizes


def _own_values(text: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the values of single layers, by the index of the layer."""
    listed = config_keys.mapping(text, _LAYER_VALUES) or {}
    found = {}
    for index, values in listed.items():
        if not (str(index).isdecimal() and len(str(index)) < 6 and isinstance(values, Mapping)):
            config_keys.invalid(_LAYER_VALUES, "must map indices of layers to objects")
        others = sorted(set(values) - {"head_dim", "num_key_value_heads"})
        if others:
            keys = ", ".join(map(str, others))
            config_keys.not_sized([_LAYER_VALUES], f"layers differ by {keys}"[:200])
        found[int(index)] = values
    return found


def _with_own_values(attention: Attention, values: Mapping[str, Any]) -> Attention:
    head_dim = config_keys.integer(values, ("head_dim",))
    kv_heads = config_keys.integer(values, ("num_key_value_heads",)) or attention.kv_heads
    if attention.heads % kv_heads:
        config_keys.invalid(_LAYER_VALUES, f"has {kv_heads} KV heads for {attention.heads} heads")
    return replace(
        attention,
        kv_heads=kv_heads,
        head_dim=head_dim or attention.head_dim,
        value_head_dim=head_dim or attention.value_head_dim,
    )
