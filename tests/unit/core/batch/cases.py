"""Cases that the tests of the batch vary, and planner vectors as cases."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[3] / "vectors"
H100 = "NVIDIA-H100-80GB-HBM3"
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
CASE: dict[str, Any] = {
    "id": "one",
    "model": {"config": LLAMA},
    "engine": {"version": "0.32.0", "args": {"max-model-len": 32768}},
    "gpu": {"product": H100, "computeCapability": "9.0", "memoryBytes": 85520809984},
    "availableKvBytes": 20 * 2**30,
}
_ARGS = {
    "tensor_parallel": "tensor-parallel-size",
    "pipeline_parallel": "pipeline-parallel-size",
    "decode_context_parallel": "decode-context-parallel-size",
    "kv_cache_skip_layers": "kv-cache-dtype-skip-layers",
    "prefix_caching": "enable-prefix-caching",
    "data_parallel": "data-parallel-size",
    "expert_parallel": "enable-expert-parallel",
}
FIELDS = {
    "bytesPerBlock": "bytes_per_block",
    "blockSize": "block_size",
    "numBlocks": "num_blocks",
    "blocksPerRequest": "blocks_per_request",
    "blocksPerRequestByGroup": "blocks_per_request_by_group",
    "maxConcurrency": "max_concurrency",
    "cacheSizeTokens": "cache_size_tokens",
    "neededBytes": "needed_bytes",
    "estimatedMaxModelLen": "estimated_max_model_len",
    "maxModelLenThatFits": "max_model_len_that_fits",
}


def changed(**changes: Any) -> dict[str, Any]:
    """Return the case with some of its keys replaced; None removes one."""
    case = copy.deepcopy(CASE) | changes
    return {key: value for key, value in case.items() if value is not None}


def with_args(**flags: Any) -> dict[str, Any]:
    """Return the case with further flags, written with underscores."""
    case = copy.deepcopy(CASE)
    case["engine"]["args"] |= {key.replace("_", "-"): value for key, value in flags.items()}
    return case


def vectors() -> list[dict[str, Any]]:
    """Return every committed vector of the engine's planner: its case, and the pool it plans."""
    found = []
    for path in sorted(VECTORS.glob("*.json.gz")):
        data = json.loads(gzip.decompress(path.read_bytes()))
        configs = data["configs"]
        for row in data["vectors"]:
            found.append(
                {
                    "id": f"{path.name.removesuffix('.json.gz')}-{row['id']}",
                    "case": _case(row, configs, row["available_kv_bytes"]),
                    "pool": row["pool"],
                }
            )
    return found


def rejections() -> list[dict[str, Any]]:
    """Return every committed case that the engine refuses."""
    found = []
    for path in sorted(VECTORS.glob("*.json.gz")):
        data = json.loads(gzip.decompress(path.read_bytes()))
        found += [_case(row, data["configs"], 2**34) for row in data["rejections"]]
    return found


def _case(row: dict[str, Any], configs: dict[str, Any], available_bytes: int) -> dict[str, Any]:
    engine = dict(row["engine"])
    version = engine.pop("version")
    args = {}
    for name, value in engine.items():
        if name == "speculative":
            args["speculative-config"] = _speculative(value, configs)
        elif name == "hybrid_kv_cache":
            args["disable-hybrid-kv-cache-manager"] = not value
        elif name == "kv_cache_skip_windows":
            args["kv-cache-dtype-skip-layers"] = ["sliding_window"]
        else:
            args[_ARGS.get(name, name.replace("_", "-"))] = value
    return {
        "id": row.get("id", ""),
        "model": {"config": configs[row["config"]]},
        "engine": {"version": version, "args": args},
        "gpu": {"computeCapability": "{}.{}".format(*row["compute_capability"])},
        "availableKvBytes": available_bytes,
    }


def _speculative(asked: dict[str, Any], configs: dict[str, Any]) -> dict[str, Any]:
    config = {"method": asked["method"], "num_speculative_tokens": asked["tokens"]}
    draft = asked.get("draft")
    return config if draft is None else config | {"model": {"config": configs[draft]}}
