"""The engine's command line: every flag that the plan depends on, written out.

Nothing is left to the engine's defaults, which change with the version and the card. One argument
is one `--flag=value`, by name, so that a change of one value is a change of one line.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import names
from tidegate.core.plan import SlicePlan
from tidegate.core.render import connectors, extra_args, timing
from tidegate.core.render.ownership import FIELDS
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

MODELS = "/models"
"""Where a claim with models is mounted."""
Value = bool | int | float | str | Sequence[str]


def make(spec: LLMDeploymentSpec, entry: SlicePlan, engine: Engine) -> list[str]:
    """Return the container's arguments: the model, Tidegate's flags by name, then the user's.

    Raises:
        Refused: This version of the engine lacks a flag or a value that the spec needs, or an
            extra argument may not be passed.
    """
    wanted = {**_model(spec), **_memory(entry), **_batch(spec, entry), **_serving(spec, entry)}
    written: list[str] = []
    for name, value in sorted(wanted.items()):
        written += _spelled(name, value, engine)
    return [model_string(spec), *written, *extra_args.normalised(spec.engine.extra_args, engine)]


def model_string(spec: LLMDeploymentSpec) -> str:
    """Return what the engine is told to load; prefill and decode must be told the same."""
    claim = spec.model.source.persistent_volume_claim if spec.model.source else None
    return f"{MODELS}/{claim.path}" if claim else spec.model.id


def _model(spec: LLMDeploymentSpec) -> dict[str, Value]:
    model = spec.model
    flags: dict[str, Value] = {
        "--served-model-name": model.served_names or [model.id],
        "--dtype": model.weights.dtype,
    }
    if model.revision is not None:
        flags["--revision"] = model.revision
    if model.weights.quantization is not None:
        flags["--quantization"] = model.weights.quantization
    return flags


def _memory(entry: SlicePlan) -> dict[str, Value]:
    config, sizing = entry.engine, entry.sizing
    flags: dict[str, Value] = {
        "--kv-cache-dtype": config.kv_cache_dtype,
        "--block-size": sizing.pool.block_size,
        "--enable-prefix-caching": config.prefix_caching,
        "--enforce-eager": config.enforce_eager,
        "--pipeline-parallel-size": config.pipeline_parallel,
        "--tensor-parallel-size": config.tensor_parallel,
    }
    if config.kv_cache_skip_layers:
        flags["--kv-cache-dtype-skip-layers"] = [str(n) for n in config.kv_cache_skip_layers]
    if config.attention_backend is not None:
        flags["--attention-backend"] = config.attention_backend
    # Without a share the engine wants 0.92 of the card to be free at its start, even where KV has a
    # size of its own: too much on a card that others use as well.
    flags["--gpu-memory-utilization"] = sizing.gpu_memory_utilization
    if sizing.kv_cache_memory_bytes is not None:
        flags["--kv-cache-memory-bytes"] = sizing.kv_cache_memory_bytes
    return flags


def _batch(spec: LLMDeploymentSpec, entry: SlicePlan) -> dict[str, Value]:
    flags: dict[str, Value] = {
        "--max-model-len": entry.engine.max_model_len,
        "--max-num-batched-tokens": entry.engine.max_num_batched_tokens,
        "--max-num-seqs": entry.engine.max_num_seqs,
        "--enable-chunked-prefill": spec.engine.chunked_prefill,
    }
    if spec.engine.long_prefill_token_threshold is not None:
        flags["--long-prefill-token-threshold"] = spec.engine.long_prefill_token_threshold
    return flags


def _serving(spec: LLMDeploymentSpec, entry: SlicePlan) -> dict[str, Value]:
    flags: dict[str, Value] = {
        "--port": names.ENGINE_PORT,
        "--shutdown-timeout": timing.ending(entry.pool, spec.kv_cache.transfer).shutdown_seconds,
    }
    if entry.pool in connectors.ROLES:
        flags["--kv-transfer-config"] = _json(connectors.transfer(spec.kv_cache, entry.pool))
    elif spec.kv_cache.offload is not None:
        flags["--kv-offloading-size"] = connectors.gib(spec.kv_cache.offload.cpu)
    if spec.engine.speculative is not None:
        flags["--speculative-config"] = _json(_speculative(spec))
    return flags


def _speculative(spec: LLMDeploymentSpec) -> dict[str, Any]:
    asked = spec.engine.speculative
    assert asked is not None  # the caller looked
    config: dict[str, Any] = {"method": asked.method, "num_speculative_tokens": asked.tokens}
    return config if asked.model is None else config | {"model": asked.model}


def _spelled(name: str, value: Value, engine: Engine) -> list[str]:
    """Spell a flag as this version takes it.

    Raises:
        Refused: FLAG_UNSUPPORTED, with the field that asked for it.
    """
    flag = engine.flags.get(name)
    if flag is None or (value is False and not flag.negatives):
        raise _unsupported(name, f"vLLM {engine.version} has no flag for it ({name})")
    if isinstance(value, bool):
        return [flag.name if value else flag.negatives[0]]
    values = [str(value)] if isinstance(value, str | int | float) else list(value)
    try:
        for item in values:
            flag.read(item)
    except ValueError as error:
        raise _unsupported(name, f"vLLM {engine.version} does not take {error}") from error
    return [flag.name, *values] if flag.takes_many else [f"{flag.name}={values[0]}"]


def _unsupported(name: str, message: str) -> Refused:
    told = f"{message}; change the field or use another engine version"
    return Refused(Reason.FLAG_UNSUPPORTED, told, FIELDS.get(name, "spec.engine.version"))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
