"""Completes reduced configs of the catalogue from copies of the public config.json files.

    python scripts/facts/public_configs.py FOLDER SOURCE

FOLDER holds `ORGANISATION--MODEL_config.json`, and at times `..._hf_quant_config.json` beside it;
SOURCE says where they are from. Run it after models.py. Keys that no sizing reads are left out, and
long lists of modules are cut: their first names tell the pattern.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "operator" / "tidegate" / "facts" / "data" / "models"
_OF_NO_EFFECT = re.compile(
    r"id2label|label2id|auto_map|.*token_ids?|bos_token.*|.*placeholder.*|transformers_version|"
    r"_name_or_path|_attn_implementation.*|use_cache|initializer_range|.*_penalty|num_beam.*|"
    r"top_[kp]|temperature|typical_p|do_sample|early_stopping|(max|min)_length|output_.*|"
    r"return_dict.*|pruned_heads|prefix|problem_type|.*suppress_tokens|bad_words_ids|forced_.*|"
    r"task_specific_params|.*no_repeat_ngram_size|num_return_sequences|tie_encoder_decoder|"
    r"tokenizer_class|torchscript|is_decoder|ignore_index|swiglu_limits.*|num_hash.*|"
    r"time_step.*|rescale.*|finetuning_task|remove_invalid_values|tf_legacy_loss"
)
_LISTS = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
_MOST_NAMES, _MOST_LAYERS = 24, 64


def main() -> None:
    """Write the configs of all entries that lack keys and have a copy in the folder."""
    folder, source = Path(sys.argv[1]), sys.argv[2]
    index = json.loads((DATA / "index.json").read_text())
    for model_id, row in index.items():
        name = model_id.replace("/", "--")
        path = folder / f"{name}_config.json"
        if not row["missing"] or not path.is_file():
            continue
        config = pruned(json.loads(path.read_text()))
        beside = folder / f"{name}_hf_quant_config.json"
        if beside.is_file() and not any("quantization_config" in part for part in parts(config)):
            stored = json.loads(beside.read_text())
            config["quantization_config"] = {
                "quant_method": "modelopt",
                **shortened(stored.get("quantization", stored)),
            }
        row |= {"file": name, "standing": "copied", "source": source, "missing": []}
        row.pop("with", None)
        (DATA / f"{name}.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    lines = [f" {json.dumps(key)}: {json.dumps(row)}" for key, row in sorted(index.items())]
    (DATA / "index.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def parts(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a config and its text part."""
    return [config, config.get("text_config", {})]


def pruned(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config without what no sizing reads; null counts as absent but for windows."""
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if _OF_NO_EFFECT.fullmatch(key) or (value is None and key != "sliding_window"):
            continue
        if key in ("quantization_config", "compression_config"):
            kept[key] = shortened(value)
        elif key in ("text_config", "vision_config", "audio_config") and isinstance(value, dict):
            kept[key] = pruned(value)
        else:
            kept[key] = value
    return kept


def shortened(stored: dict[str, Any]) -> dict[str, Any]:
    """Return how a checkpoint is stored, with the first names of each list of modules."""
    kept = {key: value for key, value in stored.items() if key != "producer"}
    for key in _LISTS:
        if isinstance(kept.get(key), list):
            kept[key] = kept[key][:_MOST_NAMES]
    layers = kept.get("quantized_layers")
    if isinstance(layers, dict) and len(layers) > _MOST_LAYERS:
        first = {
            name: told
            for name, told in layers.items()
            if re.search(r"\.layers\.[0-3]\.", name) and not re.search(r"experts\.[1-9]", name)
        }
        kept["quantized_layers"] = dict(list(first.items())[:_MOST_LAYERS])
    return kept


if __name__ == "__main__":
    main()
