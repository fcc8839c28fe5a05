"""Writes a tiny checkpoint with random weights that a real vLLM loads and serves on a CPU.

    python3 -m e2e.engine.tiny_model OUT --arch gqa

Standard library only. The same arguments give the same bytes, so an image built from it does not
change from one machine to the next. Three attention shapes, because the KV cache of each is sized
by another rule:

    gqa  LlamaForCausalLM       4 layers, 2 KV heads of 32       1024 bytes a token
    mla  DeepseekV2ForCausalLM  2 layers, a latent of 512 + 64   2304 bytes a token
    swa  Gemma3ForCausalLM      5 windows of 256, 1 full layer    128 bytes a layer and token

The tokenizer (`tiny_tokenizer`) makes lengths exact: `" hello" * n` is n tokens.
"""

import argparse
import hashlib
import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from e2e.engine import tiny_tokenizer
from e2e.engine.tiny_tokenizer import END_ID, FIRST_WORD_ID, PAD_ID, VOCABULARY

Arch = Literal["gqa", "mla", "swa"]
Config = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]

ARCHS: tuple[Arch, ...] = ("gqa", "mla", "swa")

HIDDEN = 128
HEADS = 4
HEAD_DIM = 32


def write_model(
    folder: Path | str,
    arch: Arch = "gqa",
    *,
    seed: int = 0,
    layers: int | None = None,
    kv_heads: int | None = None,
    max_position: int = 8192,
) -> Path:
    """Write a checkpoint folder as the Hugging Face hub lays it out, and return it.

    Args:
        folder: where to write; made if absent, files of the same names are replaced.
        arch: the shape of the attention, one of `ARCHS`.
        seed: another seed gives other weights, so other answers.
        layers: number of layers, in place of the shape's own.
        kv_heads: number of KV heads, in place of the shape's own; `mla` has none to set.
        max_position: the longest context in tokens that the configuration allows.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = model_config(arch, layers=layers, kv_heads=kv_heads, max_position=max_position)
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", {"eos_token_id": END_ID, "pad_token_id": PAD_ID})
    _write_json(folder / "tokenizer.json", tiny_tokenizer.tokenizer())
    _write_json(folder / "tokenizer_config.json", tiny_tokenizer.tokenizer_config(max_position))
    _write_weights(folder / "model.safetensors", config, seed)
    return folder


# ------------------------------------------------------------------ configuration


def model_config(
    arch: Arch = "gqa",
    *,
    layers: int | None = None,
    kv_heads: int | None = None,
    max_position: int = 8192,
) -> Config:
    """Return the `config.json` of a shape; see `write_model` for the arguments."""
    if arch == "gqa":
        own = _gqa_config(layers or 4, kv_heads or 2)
    elif arch == "swa":
        own = _swa_config(layers or 6, kv_heads or 1)
    elif kv_heads is None:
        own = _mla_config(layers or 2)
    else:
        raise ValueError("kv_heads: an mla model caches one latent for all heads; leave it out")
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "max_position_embeddings": max_position,
        "rms_norm_eps": 1e-5,
        "attention_bias": False,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
        **own,
    }


def _gqa_config(layers: int, kv_heads: int) -> Config:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_DIM,
        "intermediate_size": 384,
        "hidden_act": "silu",
        "mlp_bias": False,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }


def _swa_config(layers: int, kv_heads: int) -> Config:
    period = 6  # Gemma 3: every sixth layer attends to the whole context
    kinds = ["sliding_attention", "full_attention"]
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_DIM,
        "intermediate_size": 384,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": HEAD_DIM,
        "sliding_window": 256,
        "sliding_window_pattern": period,
        "layer_types": [kinds[(index + 1) % period == 0] for index in range(layers)],
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
        "tie_word_embeddings": True,
    }


def _mla_config(layers: int) -> Config:
    return {
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "num_hidden_layers": layers,
        "num_key_value_heads": HEADS,
        "kv_lora_rank": 512,  # vLLM's CPU kernel takes a latent of 512 + 64 and no other
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 32,
        "v_head_dim": 32,
        "q_lora_rank": None,
        "hidden_act": "silu",
        "intermediate_size": 256,
        "moe_intermediate_size": 64,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "greedy",
        "scoring_func": "softmax",
        "norm_topk_prob": False,
        "routed_scaling_factor": 1.0,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
    }


# ------------------------------------------------------------------ weights


def tensor_shapes(config: Config) -> Shapes:
    """Return the name and shape of every tensor that a configuration asks for."""
    shapes: Shapes = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCABULARY, HIDDEN)
    for index in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{index}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{prefix}.{name}.weight"] = (HIDDEN,)
        if config["model_type"] == "deepseek_v2":
            shapes |= _latent_attention(f"{prefix}.self_attn", config)
            shapes |= _feed_forward_or_experts(f"{prefix}.mlp", config, index)
        else:
            shapes |= _grouped_attention(f"{prefix}.self_attn", config)
            shapes |= _feed_forward(f"{prefix}.mlp", config["intermediate_size"])
        if config["model_type"] == "gemma3_text":
            shapes |= _gemma_norms(prefix)
    return shapes


def _grouped_attention(prefix: str, config: Config) -> Shapes:
    kv_size = config["num_key_value_heads"] * HEAD_DIM
    return {
        f"{prefix}.q_proj.weight": (HEADS * HEAD_DIM, HIDDEN),
        f"{prefix}.k_proj.weight": (kv_size, HIDDEN),
        f"{prefix}.v_proj.weight": (kv_size, HIDDEN),
        f"{prefix}.o_proj.weight": (HIDDEN, HEADS * HEAD_DIM),
    }


def _latent_attention(prefix: str, config: Config) -> Shapes:
    latent, rope = config["kv_lora_rank"], config["qk_rope_head_dim"]
    plain, value = config["qk_nope_head_dim"], config["v_head_dim"]
    return {
        f"{prefix}.q_proj.weight": (HEADS * (plain + rope), HIDDEN),
        f"{prefix}.kv_a_proj_with_mqa.weight": (latent + rope, HIDDEN),
        f"{prefix}.kv_a_layernorm.weight": (latent,),
        f"{prefix}.kv_b_proj.weight": (HEADS * (plain + value), latent),
        f"{prefix}.o_proj.weight": (HIDDEN, HEADS * value),
    }


def _feed_forward(prefix: str, inner: int) -> Shapes:
    return {
        f"{prefix}.gate_proj.weight": (inner, HIDDEN),
        f"{prefix}.up_proj.weight": (inner, HIDDEN),
        f"{prefix}.down_proj.weight": (HIDDEN, inner),
    }


def _feed_forward_or_experts(prefix: str, config: Config, layer: int) -> Shapes:
    if layer < config["first_k_dense_replace"]:
        return _feed_forward(prefix, config["intermediate_size"])
    experts, inner = config["n_routed_experts"], config["moe_intermediate_size"]
    shapes: Shapes = {f"{prefix}.gate.weight": (experts, HIDDEN)}
    shapes |= _feed_forward(f"{prefix}.shared_experts", inner)
    for expert in range(experts):
        shapes |= _feed_forward(f"{prefix}.experts.{expert}", inner)
    return shapes


def _gemma_norms(prefix: str) -> Shapes:
    return {
        f"{prefix}.pre_feedforward_layernorm.weight": (HIDDEN,),
        f"{prefix}.post_feedforward_layernorm.weight": (HIDDEN,),
        f"{prefix}.self_attn.q_norm.weight": (HEAD_DIM,),
        f"{prefix}.self_attn.k_norm.weight": (HEAD_DIM,),
    }


def _write_weights(path: Path, config: Config, seed: int) -> None:
    """Write a safetensors file: the length of the header, the header, the tensors one by one."""
    shapes = dict(sorted(tensor_shapes(config).items()))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(_tensors(shapes, config, seed))


def _tensors(shapes: Shapes, config: Config, seed: int) -> Iterator[bytes]:
    # Gemma adds 1 to the weight of a norm, the others multiply by it as it is
    norm = b"\x00\x00" if config["model_type"] == "gemma3_text" else b"\x80\x3f"
    for name, shape in shapes.items():
        count, key = math.prod(shape), f"{seed}/{name}"
        if len(shape) == 1:
            yield norm * count
        elif name == "lm_head.weight":
            yield _head_for_words(key)
        else:
            yield _random_bf16(key, count)


def _head_for_words(key: str) -> bytes:
    """Return an output layer that answers in words: no half characters, and no early end.

    The rows of all other tokens are zero, those of the words four times as large as elsewhere.
    """
    zeros = bytes(2 * HIDDEN * FIRST_WORD_ID)
    return zeros + _random_bf16(key, HIDDEN * (VOCABULARY - FIRST_WORD_ID), upper_byte=0x3E)


def _random_bf16(key: str, count: int, upper_byte: int = 0x3D) -> bytes:
    """Return `count` weights drawn from `key` alone: other tensors do not move them.

    bfloat16 is a sign, 8 bits of exponent and 7 of mantissa. An upper byte of 0x3D with a random
    sign puts a weight in [2^-5, 2^-3) on either side of zero: a deviation near 1/sqrt(HIDDEN).
    """
    raw = bytearray(hashlib.shake_256(key.encode()).digest(2 * count))
    raw[1::2] = raw[1::2].translate(bytes(upper_byte | (byte & 0x80) for byte in range(256)))
    return bytes(raw)


def _write_json(path: Path, value: Config) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Write one checkpoint from the command line."""
    parser = argparse.ArgumentParser(description="Write a tiny checkpoint for vLLM.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", choices=ARCHS, default="gqa")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--kv-heads", type=int)
    parser.add_argument("--max-position", type=int, default=8192)
    arguments = vars(parser.parse_args())
    folder = write_model(**arguments)
    size = (folder / "model.safetensors").stat().st_size
    print(f"{folder}: {arguments['arch']}, {size / 1e6:.2f} MB of weights")


if __name__ == "__main__":
    main()
