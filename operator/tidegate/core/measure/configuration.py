"""Which engines need the same memory: a digest of everything that it depends on.

Left out is what KV is divided by and no other term depends on (the safety line, a KV ceiling, the
longest request), so that what was measured still holds when those are changed.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import names
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.nodes import NodeClass

_MIB = 2**20
_LENGTH = 24
_POOLS_OF_A_PAIR = ("prefill", "decode")


def digest(
    spec: LLMDeploymentSpec,
    pool: str,
    config_digest: str,
    engine: EngineConfig,
    node_class: NodeClass,
) -> str:
    """Return the digest of a pool's engine on a class of node.

    Args:
        spec: What the user asks for.
        pool: unified, prefill or decode.
        config_digest: `of_config` of the model's config.json.
        engine: The engine's flags, as the estimates alone lead to them.
        node_class: The GPUs that it runs on.
    """
    gpu, kv_cache, source = node_class.gpu, spec.kv_cache, spec.model.source
    claim = source.persistent_volume_claim if source else None
    parts = {
        "engine": _flags(engine),
        "gpu": [gpu.product, gpu.cuda_total.bytes // _MIB],
        "model": [spec.model.id, spec.model.revision, config_digest],
        "claim": claim.wire() if claim else None,
        "extra": [list(spec.engine.extra_args), [entry.wire() for entry in spec.engine.env]],
        "connector": [pool, kv_cache.transfer.connector] if pool in _POOLS_OF_A_PAIR else None,
        "offloads": kv_cache.offload is not None,
        "chunkedPrefill": spec.engine.chunked_prefill,
    }
    return names.digest(json.dumps(parts, sort_keys=True, separators=(",", ":")), _LENGTH)


def of_config(model_config: Mapping[str, Any]) -> str:
    """Return the digest of a model's config.json."""
    text = json.dumps(model_config, sort_keys=True, separators=(",", ":"), default=str)
    return names.digest(text, _LENGTH)


def _flags(engine: EngineConfig) -> dict[str, Any]:
    drafted = engine.speculative
    return {
        "version": engine.version,
        "seqs": engine.max_num_seqs,
        "batched": engine.max_num_batched_tokens,
        "dtype": [engine.model_dtype, engine.quantization],
        "kv": [engine.kv_cache_dtype, list(engine.kv_cache_skip_layers), engine.block_size],
        "parallel": [engine.tensor_parallel, engine.pipeline_parallel],
        "eager": engine.enforce_eager,
        "prefixes": engine.prefix_caching,
        "backend": engine.attention_backend,
        "speculative": None
        if drafted is None
        else [drafted.method, drafted.tokens, of_config(drafted.draft or {})],
    }
