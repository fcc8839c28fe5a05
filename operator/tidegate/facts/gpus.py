"""The catalogue of GPUs: what a product label and a memory label tell about a card.

`data/gpus.json` is a list of cards, each with `products` (labels and their standing: `seen` in a
real cluster, `derived` from the driver's name by the labeller's rule, `hand-made`, `documented`),
speed figures with their sources, `multiprocessors`, `migMemoryMib` by profile, and `variants`: the
memory sizes that are sold, or switched by ECC, under one name. A variant has the memory `labels`
(MiB) that belong to it and the `total` that CUDA gives a process, which is what the engine
multiplies; a null total was never seen and is sized like that of an unknown card. `oldDriverLabels`
are the labels of drivers that already show CUDA's total. `memoryNeeded` marks a name that no size
may be read from.

A speed of null is not known, and is never zero. Speeds are dense; NVLink is in one direction.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tidegate.api.figures import Figure, How, estimated, measured
from tidegate.facts import package_data
from tidegate.facts.cloud_labels import CloudGpu, from_cloud_labels

__all__ = [
    "CloudGpu",
    "Gpu",
    "find",
    "from_cloud_labels",
    "known_products",
    "product_standings",
    "unknown",
    "variants",
]

_MIB = 2**20
_GIB = 2**30
# Labels of one variant differ by driver: a label within 1 % of a known one is that variant, and the
# next size under the same name (ECC on or off) is 6 % away.
_LABEL_TOLERANCE = 0.01
# A driver that shows CUDA's total in the label: seen 2 to 22 MiB below it, once 1 MiB above.
_OLD_DRIVER_RATIO = (0.998, 0.999, 1.001)
# Share of the label that CUDA gives, by the label's size: (below GiB, low, likely, high). The
# likely shares are those of the cards that were seen, rounded down; high is a driver that holds
# nothing back (old ones, and Windows).
_UNKNOWN_RATIOS = (
    (20, 0.950, 0.960, 1.0),
    (40, 0.967, 0.977, 1.0),
    (64, 0.975, 0.985, 1.0),
    (2**20, 0.983, 0.988, 1.0),
)
# MIG memory differed by up to 0.25 GiB between two generations of driver.
_MIG_DRIFT_BYTES = 256 * _MIB
_PRODUCT = re.compile(
    r"^(?P<base>.+?)(?:-MIG-(?P<profile>(?P<slices>\d+)g\.\d+gb[\w.+]*|INVALID))?(?P<shared>-SHARED)?$"
)


@dataclass(frozen=True)
class Gpu:
    """One GPU as a process has it: a card, a MIG device of one, or a share of either.

    `cuda_total` is the memory that CUDA reports. A card that is shared by time (`is_shared`) shows
    each process the whole of it, and limits none. Of one that is shared by MPS (`is_mps`) a process
    gets a part, which is `cuda_total` where the number of `sharers` is known; it is 1 where not.
    `taken_bytes` is what other processes are said to hold. Speeds are per second and None where not
    known. `nvlink` is `built-in`, `bridge` (where one is fitted, between pairs) or `none`; None is
    not known. `sources` pairs a field with where its value comes from.
    """

    name: str
    product: str
    cuda_total: Figure
    compute_capability: tuple[int, int] | None
    memory_bandwidth_bytes_per_second: int | None
    bf16_flops: int | None
    fp8_flops: int | None
    nvlink_bytes_per_second: int | None
    nvlink: str | None = None
    vendor: str = "NVIDIA"
    is_shared: bool = False
    is_mps: bool = False
    sharers: int = 1
    taken_bytes: int = 0
    mig_profile: str | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def is_used_by_others(self) -> bool:
        """Tell whether other processes may hold memory of it: what an engine finds is no rule."""
        return self.is_shared or self.is_mps or self.taken_bytes > 0

    @property
    def is_part(self) -> bool:
        """Tell whether it is a part of a card: a pod can use no more than one."""
        return self.is_shared or self.is_mps or self.mig_profile is not None


@dataclass(frozen=True)
class _Label:
    """A product label taken apart."""

    base: str
    profile: str | None
    slices: int
    is_shared: bool


def find(
    product: str, label_memory_mib: int | None, multiprocessors: int | None = None
) -> Gpu | None:
    """Return the card of a product label and a memory label (MiB).

    `multiprocessors` is of a MIG device, where its label tells them.

    None where the product is not in the catalogue, where the memory is none of its variants, and
    where the memory is not told and the name alone leaves it open (see `variants`).
    """
    label = _parse(product)
    card = _cards().get(label.base)
    if card is None or label.profile == "INVALID":
        return None
    if label.profile is not None:
        total = _mig_total(card, label.profile, label_memory_mib)
        if total is None:
            return None
        share = _share(card, label, total, multiprocessors)
        return _make(card, {}, product, label, total, share)
    variant = _variant(card, label_memory_mib)
    if variant is None:
        return None
    return _make(card, variant, product, label, _total(variant, label_memory_mib), _Share())


def variants(product: str) -> tuple[Gpu, ...]:
    """Return every memory size of a card, the smallest first; none for an unknown product."""
    label = _parse(product)
    card = _cards().get(label.base)
    if card is None or label.profile is not None:
        return ()
    found = [_make(card, v, product, label, _total(v, None), _Share()) for v in card["variants"]]
    return tuple(sorted(found, key=lambda gpu: gpu.cuda_total.bytes))


def unknown(product: str, label_memory_mib: int, compute_capability: tuple[int, int] | None) -> Gpu:
    """Return a card that the catalogue lacks, its total estimated from the label's memory (MiB)."""
    label = _parse(product)
    if label.profile is not None:
        total = measured(label_memory_mib * _MIB, "the label of a MIG device is CUDA's total")
    else:
        total = _ratio_total(label_memory_mib)
    return Gpu(
        name=product,
        product=product,
        cuda_total=total,
        compute_capability=compute_capability,
        memory_bandwidth_bytes_per_second=None,
        bf16_flops=None,
        fp8_flops=None,
        nvlink_bytes_per_second=None,
        is_shared=label.is_shared,
        mig_profile=label.profile,
        notes=("not in the catalogue",),
    )


def shared_by_mps(gpu: Gpu, sharers: int) -> Gpu:
    """Return a client's part of a card: MPS limits its memory and its share of multiprocessors.

    Bandwidth is left whole: a client may use it while the others do not. One sharer is not known.
    """
    total = gpu.cuda_total
    part = Figure(
        total.bytes // sharers,
        total.low // sharers,
        total.high // sharers,
        total.how,
        f"{total.source}; one of {sharers} equal parts by MPS" if sharers > 1 else total.source,
    )
    return replace(
        gpu,
        cuda_total=part,
        bf16_flops=gpu.bf16_flops // sharers if gpu.bf16_flops else None,
        fp8_flops=gpu.fp8_flops // sharers if gpu.fp8_flops else None,
        is_shared=False,
        is_mps=True,
        sharers=sharers,
    )


def known_products() -> tuple[str, ...]:
    """Return the product labels of whole cards that `find` knows, sorted."""
    return tuple(sorted(_cards()))


def product_standings() -> dict[str, str]:
    """Return each label of the catalogue, those of MIG and shared cards too, with its standing."""
    return {p["label"]: p["standing"] for card in _rows() for p in card["products"]}


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = package_data.load("gpus.json")
    return rows


@cache
def _cards() -> dict[str, dict[str, Any]]:
    return {_parse(p["label"]).base: card for card in _rows() for p in card["products"]}


def _parse(product: str) -> _Label:
    match = _PRODUCT.match(product)
    if match is None:
        return _Label(product, None, 0, False)
    return _Label(
        match["base"], match["profile"], int(match["slices"] or 0), match["shared"] is not None
    )


def _variant(card: dict[str, Any], label_memory_mib: int | None) -> dict[str, Any] | None:
    choices: list[dict[str, Any]] = card["variants"]
    if label_memory_mib is None:
        is_open = card.get("memoryNeeded", False) or len(choices) != 1
        return None if is_open else choices[0]

    def distance(variant: dict[str, Any]) -> float:
        labels = variant["labels"] + variant["oldDriverLabels"]
        return min((abs(label_memory_mib / known - 1) for known in labels), default=1.0)

    near = [choice for choice in choices if distance(choice) <= _LABEL_TOLERANCE]
    return min(near, key=distance, default=None)


def _total(variant: dict[str, Any], label_memory_mib: int | None) -> Figure:
    seen = variant["total"]
    if seen is None:
        return _ratio_total(label_memory_mib or max(variant["labels"]))
    label_bytes = (label_memory_mib or 0) * _MIB
    if label_bytes and _is_old_driver(variant, label_memory_mib or 0, seen["value"]):
        low, likely, high = (round(label_bytes * ratio) for ratio in _OLD_DRIVER_RATIO)
        return estimated(likely, low, high, "the label of an old driver is close to CUDA's total")
    return Figure(seen["value"], seen["low"], seen["high"], How.MEASURED, seen["source"])


def _is_old_driver(variant: dict[str, Any], label_memory_mib: int, total_bytes: int) -> bool:
    return label_memory_mib in variant["oldDriverLabels"] or label_memory_mib * _MIB < total_bytes


def _ratio_total(label_memory_mib: int) -> Figure:
    label_bytes = label_memory_mib * _MIB
    row = next(row for row in _UNKNOWN_RATIOS if label_bytes < row[0] * _GIB)
    low, likely, high = (int(label_bytes * ratio) for ratio in row[1:])
    return estimated(likely, low, high, "by the share of the label that CUDA gives on other cards")


def _mig_total(card: dict[str, Any], profile: str, label_memory_mib: int | None) -> Figure | None:
    """Return a MIG device's total: its own label where there is one, else what its profile had."""
    if label_memory_mib:
        return measured(label_memory_mib * _MIB, "the label of a MIG device is CUDA's total")
    mib = card.get("migMemoryMib", {}).get(profile)
    if mib is None:
        return None
    total = mib * _MIB
    return estimated(
        total, total - _MIG_DRIFT_BYTES, total + _MIG_DRIFT_BYTES, "what this profile has elsewhere"
    )


@dataclass(frozen=True)
class _Share:
    """What a MIG device has of its card; None is not known."""

    compute: float | None = 1.0
    bandwidth: float | None = 1.0


def _share(
    card: dict[str, Any], label: _Label, total: Figure, multiprocessors: int | None
) -> _Share:
    """Return a MIG device's share: its multiprocessors, else its slices; and its part of memory."""
    whole, slices = card.get("multiprocessors"), card.get("migSlices")
    if multiprocessors and whole:
        compute = min(1.0, multiprocessors / whole["value"])
    else:
        compute = label.slices / slices if slices else None
    sizes = [mib for variant in card["variants"] for mib in variant["labels"]]
    bandwidth = min(1.0, total.bytes / (max(sizes) * _MIB)) if sizes else None
    return _Share(compute, bandwidth)


def _make(
    card: dict[str, Any],
    variant: dict[str, Any],
    product: str,
    label: _Label,
    total: Figure,
    share: _Share,
) -> Gpu:
    capability = re.fullmatch(r"(\d+)\.(\d+)", card["computeCapability"])
    speeds = {key: card[key] for key in ("memoryBandwidth", "bf16Flops", "fp8Flops") if card[key]}
    is_whole = label.profile is None
    return Gpu(
        name=card["name"] if is_whole else f"{card['name']} {label.profile}",
        product=product,
        cuda_total=total,
        compute_capability=(int(capability[1]), int(capability[2])) if capability else None,
        memory_bandwidth_bytes_per_second=_speed(speeds, "memoryBandwidth", share.bandwidth),
        bf16_flops=_speed(speeds, "bf16Flops", share.compute),
        fp8_flops=_speed(speeds, "fp8Flops", share.compute),
        nvlink_bytes_per_second=card["nvlink"]["value"] if is_whole else None,
        nvlink=card["nvlink"]["kind"] if is_whole else "none",
        vendor=card["vendor"],
        is_shared=label.is_shared,
        mig_profile=label.profile,
        notes=tuple(filter(None, (card.get("note"), variant.get("note"), _link_note(card)))),
        sources=(
            *((key, figure["source"]) for key, figure in speeds.items()),
            ("nvlink", card["nvlink"]["source"]),
            ("computeCapability", card["computeCapabilitySource"]),
        ),
    )


def _speed(speeds: dict[str, dict[str, Any]], key: str, share: float | None) -> int | None:
    """Return a card's speed, or a MIG device's share of it."""
    if key not in speeds or share is None:
        return None
    value: int = speeds[key]["value"]
    return round(value * share)


def _link_note(card: dict[str, Any]) -> str | None:
    return "NVLink only with a bridge" if card["nvlink"]["kind"] == "bridge" else None
