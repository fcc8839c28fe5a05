"""Which layers share a table of blocks: the engine's rules for models whose layers differ.

All groups draw block ids from one pool, and one id is worth the bytes of the widest group, so the
engine evens out pages first, and the number of layers in each group then (vLLM 0.32 and 0.33).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tidegate.api.reasons import Reason
from tidegate.core.budget import packing
from tidegate.core.budget.kv_spec import KVSpec, are_alike
from tidegate.core.budget.reach import AllTokens, Chunk, States, Window
from tidegate.errors import Refused

# The engine takes the larger count as the size of a group while it is less than this much larger.
_PADDING_LIMIT = 1.5

Grouped = tuple[list[KVSpec], list[list[int]]]


def group(specs: Sequence[KVSpec], *, packs: bool, hybrid: bool, context_parallel: int) -> Grouped:
    """Return the specs as the engine changes them, and the places of each group's layers.

    `packs` if pages of different sizes may lie side by side in a block; without `hybrid` every
    layer of attention gets blocks for all tokens.

    Raises:
        Refused: FLAG_UNSUPPORTED or MODEL_NOT_SIZED, the engine cannot bring these layers together.
    """
    if not hybrid:
        specs = _with_all_tokens(specs, context_parallel)
    if are_alike(specs):
        return list(specs), [list(range(len(specs)))]
    if packs and len({spec.page_bytes for spec in specs}) > 1:
        return list(specs), packing.groups(specs)
    evened = _with_even_pages(specs)
    if evened is None:
        return _with_all_tokens(specs, context_parallel), [list(range(len(specs)))]
    return evened, _even_groups(evened)


def _with_all_tokens(specs: Sequence[KVSpec], context_parallel: int) -> list[KVSpec]:
    """Give windows and chunks blocks for all tokens, as full attention has beside them."""
    full_blocks = {spec.block_size for spec in specs if spec.is_full}
    if are_alike(specs) or not full_blocks:
        changed = list(specs)
    else:
        block_size = full_blocks.pop() if len(full_blocks) == 1 else None
        changed = [_promoted(spec, block_size, context_parallel) for spec in specs]
    if not are_alike(changed):
        raise Refused(
            Reason.FLAG_UNSUPPORTED,
            "without the hybrid KV cache manager all layers must take blocks alike, and this model "
            "has recurrent layers or several block sizes; leave disable-hybrid-kv-cache-manager "
            "unset",
            "spec.engine.extraArgs",
        )
    return changed


def _promoted(spec: KVSpec, block_size: int | None, context_parallel: int) -> KVSpec:
    if not isinstance(spec.reach, Window | Chunk):
        return spec
    wider = replace(spec, reach=AllTokens(context_parallel))
    changed = wider.with_block(block_size or spec.block_size)
    if spec.page_bytes > spec.dense_bytes:
        changed = changed.padded(max(spec.page_bytes, changed.dense_bytes))
    return changed


def _with_even_pages(specs: Sequence[KVSpec]) -> list[KVSpec] | None:
    """Bring all pages to the size of the largest; None if a latent page stands in the way.

    A page that divides the largest gets a longer block; other pages, and states, are padded.
    """
    largest = max(spec.page_bytes for spec in specs)
    evened = []
    for spec in specs:
        if spec.page_bytes == largest:
            evened.append(spec)
        elif isinstance(spec.reach, States):
            evened.append(spec.padded(largest))
        elif largest % spec.page_bytes == 0:
            longer = spec.block_size * (largest // spec.page_bytes)
            evened.append(replace(spec, block_size=longer, page_bytes=largest))
        elif spec.is_latent:
            return None
        else:
            evened.append(spec.padded(largest))
    return evened


def _even_groups(specs: Sequence[KVSpec]) -> list[list[int]]:
    """Split the layers of each kind into groups of about as many layers each.

    The size is the smallest count of a kind, or the largest where that pads little. Layers go
    to the groups of a kind in turn, so that every pipeline stage has its share of each.
    """
    kinds: dict[KVSpec, list[int]] = defaultdict(list)
    for place, spec in enumerate(specs):
        kinds[spec].append(place)
    counts = [len(places) for places in kinds.values()]
    size = min(counts)
    if max(counts) < size * _PADDING_LIMIT:
        size = max(counts)
    groups = []
    for places in kinds.values():
        number = -(-len(places) // size)
        groups += [places[start::number] for start in range(number)]
    return groups
