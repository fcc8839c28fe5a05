"""Headers of checkpoints as their files have them, made from a config."""

import math
from collections.abc import Mapping
from typing import Any

_BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1}


def header(shapes: Mapping[str, list[int]], dtype: str = "BF16") -> dict[str, Any]:
    """Return a safetensors header of tensors of one dtype, laid out one after the other."""
    tensors: dict[str, Any] = {}
    end = 0
    for name, sizes in shapes.items():
        begin, end = end, end + math.prod(sizes) * _BYTES[dtype]
        tensors[name] = {"dtype": dtype, "shape": sizes, "data_offsets": [begin, end]}
    return tensors


def dense(config: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the shapes of a Llama-like model's tensors."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden]}
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        shapes |= {
            f"{layer}.input_layernorm.weight": [hidden],
            f"{layer}.post_attention_layernorm.weight": [hidden],
            f"{layer}.self_attn.q_proj.weight": [heads * head_dim, hidden],
            f"{layer}.self_attn.k_proj.weight": [kv_heads * head_dim, hidden],
            f"{layer}.self_attn.v_proj.weight": [kv_heads * head_dim, hidden],
            f"{layer}.self_attn.o_proj.weight": [hidden, heads * head_dim],
            f"{layer}.mlp.gate_proj.weight": [inner, hidden],
            f"{layer}.mlp.up_proj.weight": [inner, hidden],
            f"{layer}.mlp.down_proj.weight": [hidden, inner],
        }
    shapes["model.norm.weight"] = [hidden]
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = [config["vocab_size"], hidden]
    return shapes


def mixture(config: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the shapes of a Qwen3-MoE-like model's tensors, an expert each."""
    hidden, inner = config["hidden_size"], config["moe_intermediate_size"]
    shapes = {name: sizes for name, sizes in dense(config).items() if ".mlp." not in name}
    for index in range(config["num_hidden_layers"]):
        mlp = f"model.layers.{index}.mlp"
        shapes[f"{mlp}.gate.weight"] = [config["num_experts"], hidden]
        for expert in range(config["num_experts"]):
            shapes |= {
                f"{mlp}.experts.{expert}.{name}_proj.weight": [inner, hidden]
                for name in ("gate", "up")
            }
            shapes[f"{mlp}.experts.{expert}.down_proj.weight"] = [hidden, inner]
    return shapes


def index(shapes: Mapping[str, list[int]], total_bytes: int) -> dict[str, Any]:
    """Return the index of a checkpoint with these tensors."""
    return {
        "metadata": {"total_size": total_bytes},
        "weight_map": dict.fromkeys(shapes, "model-00001-of-00001.safetensors"),
    }
