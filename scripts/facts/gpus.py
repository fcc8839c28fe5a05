"""Turns a list of observed cards into operator/tidegate/facts/data/gpus.json.

    python scripts/facts/gpus.py CARDS.jsonl

Each line of the input is one card: its labels with where they were seen, the totals that programs
printed, and speed figures. What the lines do not say in a form that a program can use (memory
variants under one label, MIG profiles) stands in gpu_rules.json, by hand. The shape of the result
is described in operator/tidegate/facts/gpus.py.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "operator" / "tidegate" / "facts" / "data"

MIB = 2**20
GIB = 2**30
# What the same card lost between drivers of 2021 and of 2026 (90 to 190 MiB): the band of a total
# that was seen once only.
DRIVER_DRIFT_BYTES = 190 * MIB
_INVENTED = re.compile(r"invented|not real|doc example|not plausible|simulator|unit test|mig-")
_OLD_DRIVER = re.compile(r"old(er)? driver|driver 455")
_INDEX_ID = re.compile(r"\bidx:\d+\b")


def make_cards(row: dict[str, Any], rules: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one card per form factor: a figure that differs by form factor splits the row."""
    rule = rules["cards"].get(row["gpu"], {})
    forms = sorted(
        {form for key in ("bf16_dense_tflops", "mem_bw_gbs") for form in _forms(row[key])}
        | set(rule.get("forms", []))
    )
    return [_make_card(row, rule, form, rules) for form in forms or [""]]


def _forms(figure: Any) -> list[str]:
    return list(figure) if isinstance(figure, dict) else []


def _make_card(
    row: dict[str, Any], rule: dict[str, Any], form: str, rules: dict[str, Any]
) -> dict[str, Any]:
    products = [
        {"label": product["value"], "standing": _standing(product["status"])}
        for product in row["product"]
        if form.upper() in product["value"].upper()
    ]
    card: dict[str, Any] = {
        "name": f"{rule.get('name', row['gpu'])} {form}".strip(),
        "vendor": row["vendor"],
        "products": products,
        "computeCapability": row["compute_capability"],
        "computeCapabilitySource": _source(row.get("compute_capability_src")),
        "memoryBandwidth": _speed(row["mem_bw_gbs"], form, 10**9, row["mem_bw_src"]),
        "bf16Flops": _speed(row["bf16_dense_tflops"], form, 10**12, row["bf16_src"]),
        "fp8Flops": _speed(row["fp8_dense_tflops"], form, 10**12, row["fp8_src"]),
        "nvlink": _nvlink(row["nvlink"], form),
        "variants": [
            variant
            for variant in (_main_variant(row, rule), *rule.get("variants", []))
            if variant["labels"] or variant["total"]  # else nothing tells a size
        ],
    }
    card["variants"].sort(key=lambda variant: max(variant["labels"], default=0))
    for key in ("memoryNeeded", "migMemoryMib", "migSlices", "note"):
        if key in rule:
            card[key] = rule[key]
    return card


def _standing(status: str) -> str:
    for word in ("derived", "hand-made", "from memory", "doc", "variant", "virtual function"):
        if word in status:
            return {"doc": "documented", "variant": "hand-made", "virtual function": "seen"}.get(
                word, word
            )
    return "seen"


def _source(text: str | None) -> str:
    """Return where a value comes from, without the ids of a private index."""
    if not text or "from memory" in text:
        return "from memory, unverified"
    text = re.sub(r"@[0-9a-f]{8}\b", "", text)
    return re.sub(
        r"public text((;|,| and) public text)+",
        "public text",
        _INDEX_ID.sub("public text", text),
    )


def _speed(figure: Any, form: str, unit: int, source: str | None) -> dict[str, Any] | None:
    value = figure.get(form) if isinstance(figure, dict) else figure
    if value is None:
        return None
    return {"value": round(value * unit), "source": _source(source)}


def _nvlink(link: dict[str, Any], form: str) -> dict[str, Any]:
    """Return kind (built-in, bridge, none) and bytes per second in one direction."""
    has, speed = str(link["has"]), link.get("bw") or ""
    if has.startswith("SXM2"):
        has = "True" if form == "SXM2" else "False"
    kind = {"True": "built-in", "False": "none"}.get(has, "bridge")
    if form == "PCIe" and kind == "built-in":
        kind = "bridge"
    found = re.match(r"([\d.]+) GB/s (per direction|total)", speed)
    value = None
    if found and kind == "built-in":
        value = round(float(found[1]) * 10**9 / (1 if found[2] == "per direction" else 2))
    is_remembered = "from memory" in speed or not link.get("src")
    return {"kind": kind, "value": value, "source": _source(None if is_remembered else link["src"])}


def _main_variant(row: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    labels, old_labels = [], []
    for label in row["label_memory_mib"] or []:
        if label["mib"] is None or _INVENTED.search(label["what"]):
            continue
        if label["mib"] in rule.get("labelsOfOtherVariants", []):
            continue
        (old_labels if _OLD_DRIVER.search(label["what"]) else labels).append(label["mib"])
    if vram := re.match(r"(\d+)G", row.get("label_vram") or ""):
        labels.append(int(vram[1]) * 1024)
    total = _total(row["torch_total_gib"] or {})
    if total and labels:  # the label counts the whole memory, CUDA's share of it is never more
        total["high"] = max(total["value"], min(total["high"], max(labels) * MIB))
    return {"labels": labels, "oldDriverLabels": old_labels, "total": total}


def _total(observed: dict[str, Any]) -> dict[str, Any] | None:
    """Return the total that CUDA gives a process, with its band; None where none was seen."""
    typical = observed.get("typical")
    if typical is None:
        return None
    low_gib = min(typical, observed.get("min_linux") or typical)
    high_gib = max(typical, observed.get("max_linux") or typical)
    inside = [
        o
        for o in observed["observations"]
        if o["n"] and low_gib - 0.006 <= o["gib"] <= high_gib + 0.006
    ]
    exact = [o for o in inside if o["mib"] and abs(o["gib"] - typical) < 0.006]
    value = max(exact, key=lambda o: o["n"])["mib"] * MIB if exact else round(typical * GIB)
    count = sum(o["n"] for o in inside)
    sizes = [o["mib"] * MIB if o["mib"] else round(o["gib"] * GIB) for o in inside]
    low, high = min([value, *sizes]), max([value, *sizes])
    if len(inside) < 2:
        low, high = value - DRIVER_DRIFT_BYTES, value + DRIVER_DRIFT_BYTES
    return {
        "value": value,
        "low": low,
        "high": high,
        "source": f"{count} public log{'s' * (count > 1)}",
    }


def main() -> None:
    """Write the data file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cards", type=Path)
    rows = [json.loads(line) for line in parser.parse_args().cards.read_text().splitlines()]
    rules = json.loads((HERE / "gpu_rules.json").read_text())
    cards = [card for row in rows for card in make_cards(row, rules)]
    lines = ",\n".join(json.dumps(card) for card in cards)
    (DATA / "gpus.json").write_text(f"[\n{lines}\n]\n")
    print(f"gpus.json: {len(cards)} cards")


if __name__ == "__main__":
    main()
