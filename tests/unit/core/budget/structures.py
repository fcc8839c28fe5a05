"""Small models of every structure, as config.json has them, for the tests to vary."""

from typing import Any

from tidegate.core.budget import pool, shape
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.pool import KVPool

GIB = 2**30
AMPERE, HOPPER, BLACKWELL = (8, 0), (9, 0), (10, 0)

_USUAL: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "vocab_size": 32000,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}
LLAMA = _USUAL | {"model_type": "llama", "num_hidden_layers": 12}
# Five windows of 1,024 tokens to one layer that attends to everything.
GEMMA3 = _USUAL | {
    "model_type": "gemma3_text",
    "num_hidden_layers": 12,
    "sliding_window": 1024,
    "sliding_window_pattern": 6,
}
# Its last four layers read keys and values of earlier ones.
GEMMA3N = _USUAL | {
    "model_type": "gemma3n_text",
    "num_hidden_layers": 10,
    "sliding_window": 512,
    "num_kv_shared_layers": 4,
    "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 2,
}
LLAMA4 = _USUAL | {
    "model_type": "llama4_text",
    "num_hidden_layers": 8,
    "attention_chunk_size": 8192,
    "no_rope_layers": [1, 1, 1, 0] * 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 1,
    "intermediate_size_mlp": 8192,
    "interleave_moe_layer_step": 1,
}
GPT_OSS = _USUAL | {
    "model_type": "gpt_oss",
    "num_hidden_layers": 8,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
DEEPSEEK_V3 = {key: value for key, value in _USUAL.items() if key != "head_dim"} | {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 6,
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 1024,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}
DEEPSEEK_V32 = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32",
    "index_topk": 2048,
    "index_n_heads": 64,
    "index_head_dim": 128,
}
DEEPSEEK_V4 = _USUAL | {
    "model_type": "deepseek_v4",
    "num_hidden_layers": 6,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 512,
    "compress_ratios": [0, 0, 4, 128, 4, 128],
}
NEMOTRON_H = _USUAL | {
    "model_type": "nemotron_h",
    "num_hidden_layers": 8,
    "hybrid_override_pattern": "M-M*M-M*",
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
}
JAMBA = {key: value for key, value in _USUAL.items() if key != "head_dim"} | {
    "model_type": "jamba",
    "num_hidden_layers": 8,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 128,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
}
QWEN3_NEXT = _USUAL | {
    "model_type": "qwen3_next",
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
LFM2 = {key: value for key, value in _USUAL.items() if key != "head_dim"} | {
    "model_type": "lfm2",
    "num_hidden_layers": 6,
    "layer_types": ["conv", "conv", "full_attention"] * 2,
    "conv_L_cache": 3,
    "conv_bias": False,
}
FALCON_H1 = _USUAL | {
    "model_type": "falcon_h1",
    "num_hidden_layers": 4,
    "mamba_d_conv": 4,
    "mamba_d_head": 64,
    "mamba_d_ssm": 2048,
    "mamba_d_state": 128,
    "mamba_expand": 2,
    "mamba_n_groups": 1,
    "mamba_n_heads": 32,
}
_WITHOUT_HEAD_DIM = {key: value for key, value in _USUAL.items() if key != "head_dim"}
# Delta attention in three of four layers; the engine counts them from 1.
KIMI_LINEAR = _WITHOUT_HEAD_DIM | {
    "model_type": "kimi_linear",
    "num_hidden_layers": 8,
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "mla_use_nope": True,
    "linear_attn_config": {
        "kda_layers": [1, 2, 3, 5, 6, 7],
        "full_attn_layers": [4, 8],
        "num_heads": 32,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
}
LONGCAT = _WITHOUT_HEAD_DIM | {
    "model_type": "longcat_flash",
    "num_layers": 4,
    "num_hidden_layers": 8,
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "ffn_hidden_size": 8192,
    "expert_ffn_hidden_size": 1024,
    "n_routed_experts": 16,
    "moe_topk": 4,
    "num_nextn_predict_layers": 1,
}
MINICPM3 = _WITHOUT_HEAD_DIM | {
    "model_type": "minicpm3",
    "num_hidden_layers": 6,
    "num_key_value_heads": 16,
    "q_lora_rank": 768,
    "kv_lora_rank": 256,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
}
# The first two layers read all tokens, the others blocks that an index picks.
MINIMAX_M3 = _USUAL | {
    "model_type": "minimax_m3",
    "num_hidden_layers": 8,
    "num_key_value_heads": 4,
    "sparse_attention_config": {
        "use_sparse_attention": True,
        "sparse_attention_freq": [0, 0, 1, 1, 1, 1, 1, 1],
        "sparse_block_size": 128,
        "sparse_index_dim": 128,
        "sparse_num_index_heads": 4,
        "sparse_topk_blocks": 16,
    },
}
# Windows have more heads; the list of types goes on for layers that draft.
STEP = _USUAL | {
    "model_type": "step3p5",
    "num_hidden_layers": 8,
    "num_attention_groups": 8,
    "sliding_window": 512,
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 2 + ["sliding_attention"] * 3,
    "attention_other_setting": {
        "attention_type": "sliding_attention",
        "num_attention_heads": 24,
        "num_attention_groups": 8,
        "head_dim": 128,
    },
    "moe_num_experts": 16,
    "moe_top_k": 4,
    "moe_intermediate_size": 512,
    "share_expert_dim": 512,
    "moe_layers_enum": "2,3,4,5,6,7",
}
# Two blocks of attention that three layers take turns with.
ZAMBA2 = _WITHOUT_HEAD_DIM | {
    "model_type": "zamba2",
    "num_hidden_layers": 8,
    "num_key_value_heads": 16,
    "layers_block_type": ["mamba", "mamba", "hybrid"] * 2 + ["mamba", "hybrid"],
    "hybrid_layer_ids": [2, 5, 7],
    "num_mem_blocks": 2,
    "adapter_rank": 128,
    "attention_hidden_size": 4096,
    "attention_head_dim": 256,
    "n_mamba_heads": 64,
    "mamba_headdim": 64,
    "mamba_ngroups": 8,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}
ALL = {
    "full attention": LLAMA,
    "windows": GEMMA3,
    "shared keys and values": GEMMA3N,
    "chunks": LLAMA4,
    "windows with sinks": GPT_OSS,
    "latent": DEEPSEEK_V3,
    "latent with an indexer": DEEPSEEK_V32,
    "compressed": DEEPSEEK_V4,
    "Mamba 2": NEMOTRON_H,
    "Mamba 1": JAMBA,
    "gated delta": QWEN3_NEXT,
    "short convolution": LFM2,
    "attention beside Mamba 2": FALCON_H1,
    "delta attention beside latent": KIMI_LINEAR,
    "latent twice in a layer": LONGCAT,
    "attention of low rank": MINICPM3,
    "attention with an index": MINIMAX_M3,
    "heads by kind of layer": STEP,
    "shared blocks beside Mamba 2": ZAMBA2,
}


def engine_of(**flags: Any) -> EngineConfig:
    """Return an engine with some flags changed."""
    usual: dict[str, Any] = {
        "version": "0.32.0",
        "max_model_len": 32768,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
    }
    return EngineConfig(**(usual | flags))


def planned(
    config: dict[str, Any],
    capability: tuple[int, int] = HOPPER,
    memory_bytes: int = 20 * GIB,
    **flags: Any,
) -> KVPool:
    """Return the pool of a model in an engine with some flags changed."""
    return pool.kv_pool(shape.read(config), engine_of(**flags), memory_bytes, capability)
