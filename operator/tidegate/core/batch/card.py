"""The GPU of a case: a product that the catalogue knows, or a compute capability and memory."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidegate.api.figures import measured
from tidegate.api.reasons import Reason
from tidegate.core.batch import document
from tidegate.errors import Refused
from tidegate.facts import gpus
from tidegate.facts.gpus import Gpu

_MIB = 2**20
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)")
_KEYS = ("product", "computeCapability", "memoryBytes")
# Labels and CUDA's own totals of one card differ by 0.3 % and more; one card's totals by less.
_SAME_TOTAL = 0.002
_NEEDED = "needs product (of the catalogue), or computeCapability (such as 9.0) with memoryBytes"


def read(case: Mapping[str, Any]) -> Gpu:
    """Return the GPU of a case.

    `memoryBytes` is what the node's label says (whole MiB, the driver's total) or what CUDA
    reports. Without it, and without a product, the card counts as small: the engine's batch limits
    are those of a card whose memory it cannot read, and only a pool can be computed.

    Raises:
        Invalid: A key is unknown, missing or of the wrong type.
        Refused: GPU_UNKNOWN, the product is not in the catalogue and nothing else tells.
    """
    asked = document.mapping(case, "gpu")
    if asked is None:
        document.fault("gpu", f"is missing; it {_NEEDED}")
    document.known(asked, _KEYS, "gpu")
    product = document.text(asked, "product", "gpu")
    capability = _capability(asked)
    memory_bytes = document.whole(asked, "memoryBytes", "gpu", at_least=1)
    if product is None and capability is None:
        document.fault("gpu", _NEEDED)
    if memory_bytes is None and case.get("availableKvBytes") is None and product is None:
        document.fault("gpu.memoryBytes", "is missing; without it, give availableKvBytes")
    card = _card(product, memory_bytes, capability)
    return card if capability is None else replace(card, compute_capability=capability)


def _card(product: str | None, memory_bytes: int | None, capability: tuple[int, int] | None) -> Gpu:
    if product is None:
        return _unknown("GPU", memory_bytes, capability)
    if memory_bytes is not None:
        return _of_size(product, memory_bytes, capability)
    found = gpus.find(product, None)
    if found is not None:
        return found
    sizes = gpus.variants(product)
    why = (
        f"is sold with several memory sizes ({', '.join(_gib(size) for size in sizes)}); give "
        "memoryBytes"
        if sizes
        else "is not in the catalogue; give computeCapability and memoryBytes"
    )
    raise Refused(Reason.GPU_UNKNOWN, f"gpu.product: {product[:200]} {why}", "gpu.product")


def _of_size(product: str, memory_bytes: int, capability: tuple[int, int] | None) -> Gpu:
    """Return a product's card of this size, whichever of its two totals the size is."""
    sizes = gpus.variants(product)
    for known in sizes:
        if abs(memory_bytes / known.cuda_total.bytes - 1) < _SAME_TOTAL:
            return _with_total(known, memory_bytes)
    found = gpus.find(product, round(memory_bytes / _MIB))
    if found is not None:
        return found
    if sizes:
        return _with_total(sizes[0], memory_bytes)
    if capability is not None:
        return _unknown(product, memory_bytes, capability)
    raise Refused(
        Reason.GPU_UNKNOWN,
        f"gpu.product: {product[:200]} is not in the catalogue; give computeCapability beside "
        "memoryBytes",
        "gpu.product",
    )


def _unknown(product: str, memory_bytes: int | None, capability: tuple[int, int] | None) -> Gpu:
    total = memory_bytes or 0
    estimated = gpus.unknown(product, round(total / _MIB), capability)
    return _with_total(estimated, total) if total % _MIB else estimated  # a label has whole MiB


def _with_total(card: Gpu, memory_bytes: int) -> Gpu:
    return replace(card, cuda_total=measured(memory_bytes, "gpu.memoryBytes, as CUDA reports it"))


def _gib(card: Gpu) -> str:
    return f"{card.cuda_total.bytes / 2**30:.1f} GiB"


def _capability(asked: Mapping[str, Any]) -> tuple[int, int] | None:
    value = asked.get("computeCapability")
    if value is None:
        return None
    match = _CAPABILITY.fullmatch(str(value)) if isinstance(value, str | float | int) else None
    if match is None or isinstance(value, bool):
        document.fault("gpu.computeCapability", 'must be a string such as "9.0"')
    return int(match[1]), int(match[2])
