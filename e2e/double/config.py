"""The checked configuration of one start: flags, model and world together."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from e2e.double import connector, memory, model
from e2e.double.connector import Connector, Identity
from e2e.double.errors import engine_failed, out_of_range, rejected
from e2e.double.memory import Memory, Pool, Wanted
from e2e.double.model import Model
from e2e.double.scheduler import Limits
from e2e.double.settings import GIB, Settings

CPU_BLOCK_MULTIPLE = 32


@dataclass(frozen=True)
class EngineConfig:
    """Everything that a start decided before it takes memory.

    Attributes:
        wanted: what the KV pool should be.
        max_queued_requests: running and waiting requests before new ones are refused; None: no
            limit.
        max_queued_tokens: prompt tokens not yet computed before new ones are refused.
        shutdown_seconds: how long SIGTERM waits for running requests; 0 aborts them.
        stream_interval: tokens of one streamed chunk.
    """

    model: Model
    settings: Settings
    served_names: tuple[str, ...]
    limits: Limits
    wanted: Wanted
    cache_dtype: str
    token_bytes: int
    host: str | None
    port: int
    connector: Connector | None
    identity: Identity
    caches_prefixes: bool
    max_queued_requests: int | None
    max_queued_tokens: int | None
    shutdown_seconds: int
    stream_interval: int
    api_keys: tuple[str, ...]
    forces_usage: bool
    tensor_parallel: int
    pipeline_parallel: int
    kv_bytes_given: int | None
    is_block_given: bool

    def pool(self) -> Pool:
        """Size the KV pool as the engine does when the model is loaded."""
        return memory.plan(self.wanted, self.memory(), self.token_bytes, self.settings.device)

    def memory(self) -> Memory:
        """Return the device memory that the start finds."""
        total, used = self.settings.gpu_memory_bytes, self.settings.gpu_used_bytes
        return Memory(total, max(0, total - used), self.settings.non_kv_bytes)

    def limits_for(self, pool: Pool) -> Limits:
        """Return the limits with the length that was fitted to the pool."""
        return replace(self.limits, max_model_len=pool.max_model_len)


def read(
    flags: Namespace,
    settings: Settings,
    environment: Mapping[str, str],
    connectors: Collection[str],
) -> EngineConfig:
    """Check the flags against the model and each other.

    Args:
        flags: the parsed command line.
        settings: the world.
        environment: the variables that vLLM reads itself.
        connectors: names of the KV connectors of this version.

    Raises:
        StartFailed: as vLLM refuses them, with its text.
    """
    check_bounds(flags)
    name = str(flags.model_tag or flags.model or "Qwen/Qwen3-0.6B")
    is_offline = environment.get("HF_HUB_OFFLINE") == "1"
    shape = model.read(name, model.find(name, settings.hub, is_offline=is_offline))
    if flags.tokenizer is not None:
        model.find(str(flags.tokenizer), settings.hub, is_offline=is_offline)
    _check_parallel(flags, shape)
    _check_service_links(environment)
    length = _max_model_len(flags, shape, environment)
    limits = _limits(flags, settings, length)
    kv_connector = _connector(flags, connectors)
    parallel = int(flags.tensor_parallel_size or 1), int(flags.pipeline_parallel_size or 1)
    cache_dtype = str(flags.kv_cache_dtype or "auto")
    kv_bytes = _kv_bytes(flags, settings, environment)
    return EngineConfig(
        model=shape,
        settings=settings,
        served_names=tuple(flags.served_model_name or [name]),
        limits=limits,
        wanted=Wanted(
            utilization=_or(flags.gpu_memory_utilization, 0.92),
            kv_bytes=kv_bytes,
            blocks_override=flags.num_gpu_blocks_override,
            block_tokens=_block_tokens(flags, settings),
            max_model_len=length,
            is_auto_fit=flags.max_model_len == -1,
        ),
        cache_dtype=cache_dtype,
        token_bytes=memory.token_bytes(
            shape, cache_dtype, tensor_parallel=parallel[0], pipeline_parallel=parallel[1]
        ),
        host=flags.host,
        port=_or(flags.port, 8000),
        connector=kv_connector,
        identity=_identity(flags, settings, shape, cache_dtype),
        caches_prefixes=flags.enable_prefix_caching is not False,
        max_queued_requests=flags.max_num_queued_reqs,
        max_queued_tokens=flags.max_num_queued_tokens,
        shutdown_seconds=_or(flags.shutdown_timeout, 0),
        stream_interval=_or(flags.stream_interval, 1),
        api_keys=tuple(flags.api_key or ()),
        forces_usage=bool(flags.enable_force_include_usage),
        tensor_parallel=parallel[0],
        pipeline_parallel=parallel[1],
        kv_bytes_given=flags.kv_cache_memory_bytes,
        is_block_given=flags.block_size is not None,
    )


# Field, section of the configuration, and the bounds that vLLM's own classes hold.
BOUNDS: tuple[tuple[str, str, str, float, float | None], ...] = (
    ("gpu_memory_utilization", "CacheConfig", "greater than", 0, 1),
    ("block_size", "CacheConfig", "greater than", 0, None),
    ("watermark", "SchedulerConfig", "greater than or equal to", 0, 1),
    ("max_num_queued_reqs", "SchedulerConfig", "greater than or equal to", 0, None),
    ("max_num_queued_tokens", "SchedulerConfig", "greater than or equal to", 0, None),
    ("stream_interval", "SchedulerConfig", "greater than or equal to", 1, None),
    ("prefill_schedule_interval", "SchedulerConfig", "greater than or equal to", 1, None),
    ("shutdown_timeout", "VllmConfig", "greater than or equal to", 0, None),
    ("max_num_seqs", "SchedulerConfig", "greater than or equal to", 0, None),
    ("max_num_batched_tokens", "SchedulerConfig", "greater than or equal to", 1, None),
)


def check_bounds(flags: Namespace) -> None:
    """Refuse numbers out of the bounds of their field."""
    for field, section, relation, low, high in BOUNDS:
        value = getattr(flags, field, None)
        if value is None:
            continue
        is_low = value <= low if relation == "greater than" else value < low
        if is_low:
            raise out_of_range(section, field, f"Input should be {relation} {low}", value)
        if high is not None and value > high:
            raise out_of_range(
                section, field, f"Input should be less than or equal to {high}", value
            )


def _max_model_len(flags: Namespace, shape: Model, environment: Mapping[str, str]) -> int:
    length = flags.max_model_len
    if length in (None, -1):
        return shape.max_length
    if length <= 0:
        raise rejected(
            "ModelConfig", f"max_model_len must be a positive integer, got int: {length}"
        )
    if length > shape.max_length and environment.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") != "1":
        raise rejected(
            "ModelConfig",
            f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
            f"({shape.length_field}={float(shape.max_length)} or model_max_length=None in model's "
            "config.json). To allow overriding this maximum, set the env var "
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1.",
        )
    return int(length)


def _limits(flags: Namespace, settings: Settings, length: int) -> Limits:
    default_tokens, default_sequences = _batch_defaults(settings)
    sequences = int(_or(flags.max_num_seqs, default_sequences))
    is_chunked = flags.enable_chunked_prefill is not False
    tokens = flags.max_num_batched_tokens
    if tokens is None:
        tokens = min(default_tokens, max(sequences * length, 1))
        tokens = tokens if is_chunked else max(tokens, length)
    threshold = int(_or(flags.long_prefill_token_threshold, 0))
    if tokens < length and not is_chunked:
        raise rejected(
            "SchedulerConfig",
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({length}). This "
            "effectively limits the maximum sequence length to max_num_batched_tokens and makes "
            "vLLM reject longer sequences. Please increase max_num_batched_tokens or decrease "
            "max_model_len.",
        )
    if tokens < sequences:
        raise rejected(
            "SchedulerConfig",
            f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs "
            f"({sequences}).",
        )
    if threshold > length:
        raise rejected(
            "SchedulerConfig",
            f"long_prefill_token_threshold ({threshold}) cannot be greater than the max_model_len "
            f"({length}).",
        )
    return Limits(
        max_model_len=length,
        max_sequences=sequences,
        max_batched_tokens=int(tokens),
        long_prefill_threshold=threshold,
        watermark=float(_or(flags.watermark, 0.0)),
        is_chunked=is_chunked,
        reserves_full_prompt=flags.scheduler_reserve_full_isl is not False,
        is_priority=flags.scheduling_policy == "priority",
    )


def _batch_defaults(settings: Settings) -> tuple[int, int]:
    """Tokens and sequences of a step where no flag says them."""
    if settings.device == "cpu":
        return 2048, 128
    if settings.gpu_memory_bytes >= 160 * GIB:
        return 16384, 1024
    return (8192, 1024) if settings.gpu_memory_bytes >= 70 * GIB else (2048, 256)


def _block_tokens(flags: Namespace, settings: Settings) -> int:
    block = int(_or(flags.block_size, 128 if settings.device == "cpu" else 16))
    if settings.device == "cpu" and block % CPU_BLOCK_MULTIPLE:
        raise engine_failed(
            "ValueError",
            f"No common block size for {block} (CPU_ATTN: [MultipleOf({CPU_BLOCK_MULTIPLE})]).",
        )
    return block


def _kv_bytes(flags: Namespace, settings: Settings, environment: Mapping[str, str]) -> int | None:
    # On CPUs the older variable wins over the flag.
    space = environment.get("VLLM_CPU_KVCACHE_SPACE")
    if settings.device == "cpu" and space:
        return int(float(space) * GIB)
    value: int | None = flags.kv_cache_memory_bytes
    return value


def _check_parallel(flags: Namespace, shape: Model) -> None:
    tensor = int(flags.tensor_parallel_size or 1)
    context = int(flags.decode_context_parallel_size or 1)
    if shape.heads % tensor:
        raise rejected(
            "VllmConfig",
            f"Total number of attention heads ({shape.heads}) must be divisible by tensor parallel "
            f"size ({tensor}).",
        )
    if tensor % context:
        raise rejected(
            "ParallelConfig", f"tp_size={tensor} must be divisible by dcp_size={context}."
        )


def _check_service_links(environment: Mapping[str, str]) -> None:
    port = environment.get("VLLM_PORT", "")
    if port and not port.isdigit():
        raise engine_failed(
            "ValueError",
            f"VLLM_PORT '{port}' appears to be a URI. This may be caused by a Kubernetes service "
            "discovery issue, check the warning in: https://docs.vllm.ai/en/stable/serving/env_vars.html",
        )


def _connector(flags: Namespace, known: Collection[str]) -> Connector | None:
    given: dict[str, Any] | None = flags.kv_transfer_config
    if given and given.get("kv_role") and not given.get("kv_connector"):
        raise rejected("VllmConfig", "Connector name is not set in KVTransferConfig")
    kv_connector = connector.read(given)
    if kv_connector and kv_connector.name not in known:
        raise rejected("VllmConfig", f"Unsupported connector type: {kv_connector.name}")
    if flags.kv_offloading_size:  # replaces whatever was configured, without a word
        return Connector("OffloadingConnector", "kv_both")
    return kv_connector


def _identity(flags: Namespace, settings: Settings, shape: Model, cache_dtype: str) -> Identity:
    default_backend = "CPU_ATTN" if settings.device == "cpu" else "FLASH_ATTN"
    return Identity(
        vllm_version=settings.vllm_version,
        model=shape.name,
        dtype=shape.dtype if flags.dtype in (None, "auto") else str(flags.dtype),
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        cache_dtype=cache_dtype,
        attention_backend=str(flags.attention_backend or default_backend).upper(),
        has_hybrid_manager=flags.disable_hybrid_kv_cache_manager is not True,
        extra=(str(flags.speculative_config),) if flags.speculative_config else (),
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
