"""Writes the tables of docs/reference/gpus.md and docs/reference/engines.md from the catalogues.

    python scripts/facts/reference.py [--check]

With --check nothing is written; the exit code is 1 where a page differs from its data.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tidegate.api.figures import Figure
from tidegate.facts import engines, gpus
from tidegate.facts.engines import Engine
from tidegate.facts.flags import Flag
from tidegate.facts.gpus import Gpu

PAGES = Path(__file__).parents[2] / "docs" / "reference"
_MADE = "<!-- Made by scripts/facts/reference.py; do not edit. -->\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def gpus_page() -> str:
    """Return the page of cards."""
    standings = gpus.product_standings()
    rows = [
        (f"`{product}`", standings.get(product, ""), *_gpu_cells(gpu))
        for product in gpus.known_products()
        for gpu in gpus.variants(product)
    ]
    head = (
        "Product label", "Standing", "Card", "CUDA total, GiB", "How", "Capability",
        "Memory, GB/s", "BF16, TFLOP/s", "FP8, TFLOP/s", "NVLink, GB/s", "Notes",
    )  # fmt: skip
    return (
        f"# GPUs\n\n{_MADE}\n"
        "What Tidegate knows of a card by its `nvidia.com/gpu.product` and `nvidia.com/gpu.memory` "
        "labels. The total is what CUDA gives the engine, which is less than the label says. "
        "A name with several rows is told apart by the memory label; without it the card counts as "
        "unknown. `-SHARED` is the whole card seen by several pods; the label of a "
        "`-MIG-<profile>` device is its total.\n\n"
        "Speeds are dense and, for NVLink, in one direction. An empty cell is not known. `derived` "
        "labels follow from the driver's name by the labeller's rule and were not seen.\n\n"
        + table(head, rows)
        + "\n## A card that is not in the table\n\n"
        "Its total is estimated from the memory label by the share that CUDA gives on the cards "
        "above; the plan then shows a band:\n\n"
        + table(("Label", "Low", "Likely", "High"), _share_rows())
    )


def _gpu_cells(gpu: Gpu) -> tuple[str, ...]:
    return (
        gpu.name,
        _band(gpu.cuda_total),
        f"{gpu.cuda_total.how.value}: {gpu.cuda_total.source}",
        "{}.{}".format(*gpu.compute_capability) if gpu.compute_capability else "",
        _scaled(gpu.memory_bandwidth_bytes_per_second, 10**9),
        _scaled(gpu.bf16_flops, 10**12),
        _scaled(gpu.fp8_flops, 10**12),
        _scaled(gpu.nvlink_bytes_per_second, 10**9),
        "; ".join(gpu.notes),
    )


def _band(total: Figure) -> str:
    low, value, high = (f"{count / 2**30:.2f}" for count in (total.low, total.bytes, total.high))
    return value if low == high else f"{value} ({low} to {high})"


def _scaled(value: int | None, unit: int) -> str:
    return "" if value is None else f"{value / unit:g}"


def _share_rows() -> Iterable[tuple[str, ...]]:
    for label_gib, name in (
        (16, "below 20 GiB"),
        (32, "below 40 GiB"),
        (48, "below 64 GiB"),
        (96, "more"),
    ):
        total = gpus.unknown("", label_gib * 1024, None).cuda_total
        shares = (count / (label_gib * 2**30) for count in (total.low, total.bytes, total.high))
        yield (name, *(f"{share:.3f}" for share in shares))


def engines_page() -> str:
    """Return the page of engine versions."""
    known = [engines.engine(version) for version in engines.versions()]
    return (
        f"# Engine versions\n\n{_MADE}\n"
        f"Tidegate has the facts of vLLM {' and '.join(e.version for e in known)}. Another patch "
        "of one of these minors is taken for the nearest of them; any other version is refused.\n"
        + "".join(_engine_section(engine) for engine in known)
    )


def _engine_section(engine: Engine) -> str:
    flags = table(
        ("Flag", "Other spellings", "Value", "Default"),
        [
            (f"`{flag.name}`", _spellings(flag), _value(flag), _default(flag))
            for flag in engine.flags.values()
        ],
    )
    backends = table(
        ("Attention backend", "KV types that it declares"),
        [
            (f"`{name}`", _codes(engine.kv_dtypes_of_backend(name) or ()))
            for name in engine.attention_backends
        ],
    )
    connectors = table(
        ("KV connector", "Works with the hybrid KV cache manager"),
        [(f"`{name}`", "yes" if has else "no") for name, has in engine.kv_connectors.items()],
    )
    metrics = table(
        ("Metric", "Type", "Needs"),
        [
            (f"`{metric.name}`", metric.kind, metric.needs or "")
            for metric in engine.metrics.values()
        ],
    )
    return (
        f"\n## vLLM {engine.version}\n\nKV cache types: {_codes(engine.kv_cache_dtypes)}.\n"
        f"\n### Attention backends\n\n{backends}\n### KV connectors\n\n{connectors}"
        f"\n### Metrics\n\n{metrics}\n### Flags\n\n{flags}"
    )


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _spellings(flag: Flag) -> str:
    return _codes(spelling for spelling in flag.spellings if spelling != flag.name)


def _value(flag: Flag) -> str:
    kind = f"{flag.kind}, several" if flag.takes_many else flag.kind
    return f"{kind}: {', '.join(map(str, flag.choices))}" if flag.choices else kind


def _default(flag: Flag) -> str:
    return "" if flag.default is None else f"`{flag.default}`"


def main() -> int:
    """Write the pages, or compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    stale = []
    for name, text in (("gpus.md", gpus_page()), ("engines.md", engines_page())):
        path = PAGES / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
        if not is_check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if is_check and stale:
        print(f"differs from its data: {', '.join(stale)}; run scripts/facts/reference.py")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
