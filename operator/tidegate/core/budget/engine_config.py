"""What the engine is told: the flags that decide how memory is divided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NEVER_ASYNCHRONOUS = ("ngram", "suffix", "medusa", "mlp_speculator", "custom_class")


@dataclass(frozen=True)
class Speculative:
    """Speculative decoding as the engine is told.

    `draft` is the draft model's config.json; methods that have no draft of their own
    (ngram, mtp) leave it empty. `kv_cache_dtype` and `attention_backend` are the draft's where it
    does not take the model's, `quantization` is that of a draft with a config.json of its own.
    """

    method: str
    tokens: int
    draft: Mapping[str, Any] | None = None
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None
    quantization: str | None = None


@dataclass(frozen=True)
class EngineConfig:
    """The engine's flags, resolved: no value is left to the engine, save where None is allowed.

    Lengths are in tokens. `model_dtype` is `auto` or the engine's --dtype; the dtypes of the KV
    cache and of recurrent state are spelled as the engine's flags are. `kv_cache_skip_windows`
    keeps all layers with a sliding window in the model's dtype. `block_size`, `mamba_block_size`
    and `attention_backend` are None where the engine chooses; `async_scheduling` None is the
    engine's default. `hybrid_kv_cache` False gives every layer blocks for all tokens.
    `capture_sizes` are the batches, in tokens, that CUDA graphs are captured for, or all up to
    `largest_capture_size`, and `graph_mode` which graphs; the engine's own where None. With
    `language_only` the tower of a multimodal model is not loaded; embeddings of images may still
    come with `takes_embeddings`.
    """

    version: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    model_dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_skip_layers: tuple[int, ...] = ()
    kv_cache_skip_windows: bool = False
    block_size: int | None = None
    mamba_block_size: int | None = None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    hybrid_kv_cache: bool = True
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    decode_context_parallel: int = 1
    prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    enforce_eager: bool = False
    capture_sizes: tuple[int, ...] | None = None
    largest_capture_size: int | None = None
    graph_mode: str | None = None
    language_only: bool = False
    takes_embeddings: bool = False
    attention_backend: str | None = None
    async_scheduling: bool | None = None
    num_gpu_blocks_override: int | None = None
    speculative: Speculative | None = None

    @property
    def speculated_tokens(self) -> int:
        """Tokens that are drafted in a step."""
        return self.speculative.tokens if self.speculative else 0

    @property
    def takes_images(self) -> bool:
        """Tell whether a multimodal model's requests may hold images, or their embeddings."""
        return self.takes_embeddings or not self.language_only

    @property
    def in_flight_tokens(self) -> int:
        """Tokens that may be scheduled and not yet settled: one full batch for each that runs.

        A pipeline runs one batch per stage, and asynchronous scheduling one ahead of them.
        """
        ahead = self.async_scheduling
        if ahead is None:
            method = self.speculative.method if self.speculative else ""
            ahead = method not in _NEVER_ASYNCHRONOUS
        return (self.pipeline_parallel + ahead) * self.max_num_batched_tokens
