"""Which layers of a mixture of experts have experts: each family has a key of its own for it."""

from collections.abc import Mapping
from typing import Any

from tidegate.core.budget import config_keys

_DENSE_FIRST = (
    "first_k_dense_replace",
    "num_dense_layers",
    "moe_layer_start_index",
    "moe_layer_num_skipped",
)
_STEPS = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")


def read(text: Mapping[str, Any], layers: int) -> frozenset[int]:
    """Return the indices of the layers that have experts.

    Raises:
        Refused: a key makes no sense.
    """
    types = text.get("mlp_layer_types")
    if isinstance(types, list):
        return frozenset(index for index, kind in enumerate(types) if kind == "sparse")
    frequency = text.get("moe_layer_freq")
    if isinstance(frequency, list):
        return frozenset(index for index, is_sparse in enumerate(frequency) if is_sparse)
    listed = text.get("moe_layers_enum")
    if listed is not None:
        return _enumerated(listed)
    period = config_keys.integer(text, ("expert_layer_period",))
    if period is not None:
        offset = config_keys.integer(text, ("expert_layer_offset",), at_least=0)
        return frozenset(range(1 if offset is None else offset, layers, period))
    return _after_the_first(text, layers)


def _enumerated(listed: Any) -> frozenset[int]:
    """Return the indices that a list has, or a string with commas."""
    indices = listed.split(",") if isinstance(listed, str) else listed
    if not isinstance(indices, list) or not all(str(one).strip().isdecimal() for one in indices):
        config_keys.invalid("moe_layers_enum", "must list indices of layers")
    return frozenset(int(one) for one in indices)


def _after_the_first(text: Mapping[str, Any], layers: int) -> frozenset[int]:
    first_sparse = config_keys.integer(text, _DENSE_FIRST, at_least=0) or 0
    dense_only = text.get("mlp_only_layers") or []
    if not isinstance(dense_only, list):
        config_keys.invalid("mlp_only_layers", "must be a list of layer indices")
    steps = [config_keys.integer(text, (key,), at_least=0) for key in _STEPS]
    step = next((step for step in steps if step is not None), 1)
    if step == 0:
        return frozenset()
    last_sparse = config_keys.integer(text, ("moe_layer_end_index",), at_least=0)
    end = layers if last_sparse is None else min(layers, last_sparse + 1)
    return frozenset(
        index
        for index in range(first_sparse, end)
        if (index + 1) % step == 0 and index not in dense_only
    )
