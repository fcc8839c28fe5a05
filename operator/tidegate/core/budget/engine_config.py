"""What the engine is told: the flags that decide how memory is divided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Speculative:
    """Speculative decoding as the engine is told.

    `draft` is the draft model's config.json; methods that have no draft of their own
    (ngram, mtp) leave it empty.
    """

    method: str
    tokens: int
    draft: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class EngineConfig:
    """The engine's flags, resolved: no value is left to the engine, save where None is allowed.

    Lengths are in tokens. `model_dtype` is `auto` or the engine's --dtype, `kv_cache_dtype` is
    spelled as the engine's --kv-cache-dtype. `block_size` and `attention_backend` are None where
    the engine chooses; `async_scheduling` None is the engine's default. Neither it nor
    `prefix_caching` changes the pool of full attention; windows and recurrent state depend on both.
    """

    version: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    model_dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_skip_layers: tuple[int, ...] = ()
    block_size: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    decode_context_parallel: int = 1
    prefix_caching: bool = True
    enforce_eager: bool = False
    attention_backend: str | None = None
    async_scheduling: bool | None = None
    num_gpu_blocks_override: int | None = None
    speculative: Speculative | None = None
