"""Turns copies of config.json into operator/tidegate/facts/data/models.

    python scripts/facts/models.py --configs FOLDER --reduced REDUCED.json

FOLDER holds full configs and an INDEX.json that says where each comes from; REDUCED.json holds by
model id the few keys that somebody kept of a config. Which ids share a config, and what the copies
lack, stands in model_rules.json. A model that has a full config is not taken from REDUCED.json.
"""

import argparse
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "operator" / "tidegate" / "facts" / "data" / "models"

# Without these neither weights nor KV can be sized.
_NEEDED = (
    "architectures",
    "model_type",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_size",
    "vocab_size",
    "max_position_embeddings",
)
_REDUCED_ONLY = ("source", "head_dim_note", "layer_types_pattern")
_QUANTIZED_NAMES = (
    "FP8",
    "NVFP4",
    "Kimi-K2.5",
    "Kimi-K2.6",
    "Kimi-K2-Thinking",
    "DeepSeek-V4-Pro",
    "MiniMax-M2.7",
)
_WINDOWED = ("sliding_window", "attention_chunk_size", "linear_num_key_heads")
_EXPERT_COUNTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


def full_entries(folder: Path, rules: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (index entries by id, configs by file name) of the full configs."""
    entries, files = {}, {}
    for key, row in json.loads((folder / "INDEX.json").read_text()).items():
        files[key] = json.loads((folder / f"{key}.json").read_text())
        is_copy = row["source"].startswith("copy")
        for model_id in rules["ids"][key]:
            entries[model_id] = {
                "file": key,
                "standing": "copied" if is_copy else "from memory",
                "source": row["source"],
                "missing": ["quantization_config"] * (model_id in rules["quantizationNotKnown"]),
            }
    return entries, files


def reduced_entry(model_id: str, row: dict[str, Any], rules: dict[str, Any]) -> tuple[Any, Any]:
    """Return (index entry, config) of a model of which only some keys are known."""
    config = {key: value for key, value in row.items() if key not in _REDUCED_ONLY}
    if layers := expand_pattern(row.get("layer_types_pattern"), row.get("num_hidden_layers")):
        config["layer_types"] = layers
    remembered = rules["remembered"].get(model_id, {})
    config |= {key: value for key, value in remembered.items() if key not in config}
    missing = [key for key in _NEEDED if key not in config]
    if not remembered:
        missing += _lacks_mlp(config)
        if "layer_types" not in config and any(config.get(key) for key in _WINDOWED):
            missing.append("layer_types")
    is_quantized = any(name in model_id for name in _QUANTIZED_NAMES)
    if is_quantized and model_id not in rules["quantizedWith"]:
        missing.append("quantization_config")
    source = row["source"].replace("known", "written from memory of the public HF config.json")
    entry = {
        "file": model_id.replace("/", "--"),
        "standing": "reduced" if missing else "from memory",
        "source": source + (" (some keys from memory)" if remembered and "copy" in source else ""),
        "missing": missing,
    }
    return entry, config


def _lacks_mlp(config: dict[str, Any]) -> list[str]:
    lacks = [] if "intermediate_size" in config else ["intermediate_size"]
    is_moe = "moe" in json.dumps(config.get("architectures", "")).lower()
    if is_moe and not any(key in config for key in _EXPERT_COUNTS):
        lacks += ["num_experts", "moe_intermediate_size"]
    return lacks


def expand_pattern(pattern: dict[str, Any] | None, layers: int | None) -> list[str] | None:
    """Return the type of every layer from the first twelve and the counts, if they repeat."""
    if not pattern or "first_12" not in pattern or layers is None:
        return None
    first = pattern["first_12"]
    for period in range(1, len(first) // 2 + 1):
        types = [first[index % period] for index in range(layers)]
        counts = {kind: types.count(kind) for kind in set(types)}
        if types[: len(first)] == first[:layers] and counts == pattern["counts"]:
            return types
    return None


def add_quantizations(entries: dict[str, Any], rules: dict[str, Any]) -> None:
    """Add what the copies left out: it decides the bytes of the weights."""
    for model_id, name in rules["quantizedWith"].items():
        entries[model_id]["with"] = {"quantization_config": rules["quantizations"][name]}
        entries[model_id]["source"] += "; quantization_config from memory"


def write(entries: dict[str, Any], files: dict[str, Any]) -> None:
    """Write the index and one file per config."""
    DATA.mkdir(exist_ok=True)
    for old in DATA.glob("*.json"):
        old.unlink()
    rows = ",\n".join(f" {json.dumps(key)}: {json.dumps(entries[key])}" for key in sorted(entries))
    (DATA / "index.json").write_text(f"{{\n{rows}\n}}\n")
    for name, config in files.items():
        (DATA / f"{name}.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def main() -> None:
    """Write the data files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--configs", type=Path, required=True)
    parser.add_argument("--reduced", type=Path, required=True)
    arguments = parser.parse_args()
    rules = json.loads((HERE / "model_rules.json").read_text())
    entries, files = full_entries(arguments.configs, rules)
    for model_id, row in json.loads(arguments.reduced.read_text()).items():
        if model_id not in entries:
            entry, config = reduced_entry(model_id, row, rules)
            entries[model_id], files[entry["file"]] = entry, config
    add_quantizations(entries, rules)
    write(entries, files)
    print(f"models: {len(entries)} ids, {len(files)} configs")


if __name__ == "__main__":
    main()
