"""What the engine reads of a model: the shape of its KV, from config.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.double.errors import HF_VALIDATION, StartFailed, rejected

Config = dict[str, Any]

# Architectures whose layers are all full attention with per-head K and V.
MODEL_TYPES = frozenset(
    {
        *("llama", "mistral", "mixtral", "phi3", "granite", "olmo2", "glm4", "glm4_moe"),
        *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
    }
)
# First one present counts, as in vLLM.
KV_HEAD_FIELDS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num")
LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
ELEMENT_BYTES = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


@dataclass(frozen=True)
class Model:
    """A model of full attention layers.

    Attributes:
        name: the model argument as it was given; P and D compare it.
        folder: where its files are.
        length_field: the field of config.json that limits the length.
        max_length: that limit in tokens.
        dtype: data type of the weights.
    """

    name: str
    folder: Path
    model_type: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    length_field: str
    max_length: int
    dtype: str


def find(name: str, hub: Path, *, is_offline: bool) -> Path:
    """Return the folder of a model given as a path or a hub id.

    Raises:
        StartFailed: there is none; with the text of vLLM for that case.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    parts = name.split("/")
    if len(parts) > 2 or not all(parts) or name.startswith((".", "/")):
        message = f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{name}'."
        raise StartFailed(
            "APIServer", HF_VALIDATION, f"{message} Use `repo_type` argument if needed."
        )
    if (hub / name).is_dir():
        return hub / name
    if is_offline:
        raise StartFailed(
            "APIServer",
            "huggingface_hub.errors.LocalEntryNotFoundError",
            "Cannot find an appropriate cached snapshot folder for the specified revision on the "
            "local disk and outgoing traffic has been disabled. To enable repo look-ups and "
            "downloads online, pass 'local_files_only=False' as input.",
        )
    raise StartFailed(
        "APIServer",
        "OSError",
        "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them "
        f"in the cached files.\nCheck your internet connection or see how to run {name} offline.",
    )


def read(name: str, folder: Path) -> Model:
    """Read the shape of a model.

    Raises:
        StartFailed: no config.json, an architecture that is not all full attention, or fields that
            are missing.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise rejected(
            "ModelConfig",
            f"Invalid repository ID or local directory specified: '{folder}'.\nPlease verify the "
            "following requirements:\n1. Provide a valid Hugging Face repository ID.\n2. Specify a "
            "local directory that contains a recognized configuration file.",
        )
    config: Config = json.loads(path.read_text("utf-8"))
    model_type = str(config.get("model_type", ""))
    if model_type not in MODEL_TYPES or _has_windows(config):
        raise rejected(
            "ModelConfig",
            f"The checkpoint you are trying to load has model type `{model_type}` but Transformers "
            "does not recognize this architecture. This could be because of an issue with the "
            "checkpoint, or because your version of Transformers is out of date.",
        )
    try:
        return _shape(name, folder, model_type, config)
    except KeyError as error:
        raise rejected("ModelConfig", f"config.json has no field {error.args[0]!r}") from error


def _shape(name: str, folder: Path, model_type: str, config: Config) -> Model:
    heads = int(config["num_attention_heads"])
    kv_field = next((field for field in KV_HEAD_FIELDS if config.get(field)), "num_attention_heads")
    length_field = next((field for field in LENGTH_FIELDS if config.get(field)), LENGTH_FIELDS[0])
    return Model(
        name=name,
        folder=folder,
        model_type=model_type,
        layers=int(config["num_hidden_layers"]),
        heads=heads,
        kv_heads=int(config[kv_field]),
        head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
        length_field=length_field,
        max_length=int(config[length_field]),
        dtype=str(config.get("torch_dtype") or config.get("dtype") or "bfloat16"),
    )


def _has_windows(config: Config) -> bool:
    kinds = set(config.get("layer_types") or ["full_attention"])
    has_window = config.get("sliding_window") and config.get("use_sliding_window", True)
    return bool(has_window) or kinds != {"full_attention"}
