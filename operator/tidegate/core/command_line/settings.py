"""What a set of flags settles: every value that sizing depends on, the engine's defaults filled in.

Nothing here is guessed: what is absent takes the default of that version on that GPU.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget import quantization
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.core.command_line import (
    batch_limits,
    graph_flags,
    hybrid,
    scheduling,
    speculation,
    text_only,
    uncounted,
)
from tidegate.errors import Refused
from tidegate.facts.engines import Engine
from tidegate.facts.gpus import Gpu

_AUTO = -1
_WINDOWS = "sliding_window"  # all layers with one, among the layers to skip


@dataclass(frozen=True)
class Settings:
    """The engine's flags as sizing takes them.

    `memory_share` is the engine's --gpu-memory-utilization, `kv_cache_bytes` its
    --kv-cache-memory-bytes. Where `length_is_auto`, `engine.max_model_len` is the most that the
    model allows, and the engine lowers it to what memory holds. `notes` say what is not counted.
    """

    engine: EngineConfig
    memory_share: float
    kv_cache_bytes: int | None
    length_is_auto: bool
    notes: tuple[str, ...]


def settle(
    arguments: Mapping[str, Any],
    model: ModelShape,
    engine: Engine,
    gpu: Gpu,
    version: str | None = None,
) -> Settings:
    """Settle the flags for a model on a GPU.

    Args:
        arguments: Flags by name, typed; see `arguments.read` and `serve.read`.
        model: The model that is served.
        engine: The version whose flags they are.
        gpu: The card; its memory decides the engine's batch limits.
        version: The version whose estimates are taken, where it is another one.

    Raises:
        Refused: A value that the engine would refuse, or that cannot be sized; names the flag.
    """
    uncounted.refuse(arguments, engine)
    quantization.require_possible(model.quantization, arguments.get("quantization"), "quantization")
    asked_length = arguments.get("max-model-len")
    longest = model.max_model_len if asked_length in (None, _AUTO) else asked_length
    _check_length(asked_length, longest, model)
    limits = batch_limits.settle(arguments, engine, gpu, longest)
    asked = speculation.read(arguments, engine, longest)
    graphs = graph_flags.read(arguments)
    return Settings(
        engine=EngineConfig(
            version=version or engine.version,
            max_model_len=longest,
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            model_dtype=_model_dtype(arguments),
            quantization=arguments.get("quantization"),
            kv_cache_dtype=_kv_cache_dtype(arguments, engine),
            kv_cache_skip_layers=_skip_layers(arguments),
            kv_cache_skip_windows=_WINDOWS in _skipped(arguments),
            block_size=_positive(arguments, "block-size"),
            mamba_block_size=_positive(arguments, "mamba-block-size"),
            mamba_cache_dtype=arguments.get("mamba-cache-dtype", "auto"),
            mamba_ssm_cache_dtype=arguments.get("mamba-ssm-cache-dtype", "auto"),
            hybrid_kv_cache=hybrid.is_on(arguments, engine),
            tensor_parallel=_parallel(arguments, "tensor-parallel-size"),
            pipeline_parallel=_parallel(arguments, "pipeline-parallel-size"),
            data_parallel=_parallel(arguments, "data-parallel-size"),
            expert_parallel=arguments.get("enable-expert-parallel", False),
            decode_context_parallel=_parallel(arguments, "decode-context-parallel-size"),
            prefix_caching=arguments.get("enable-prefix-caching", not model.is_attention_free),
            enable_chunked_prefill=arguments.get("enable-chunked-prefill", True),
            enforce_eager=graphs.enforce_eager,
            capture_sizes=graphs.sizes,
            largest_capture_size=graphs.largest,
            graph_mode=graphs.mode,
            language_only=text_only.is_so(arguments, model),
            takes_embeddings=arguments.get("enable-mm-embeds", False),
            attention_backend=_attention_backend(arguments, engine),
            async_scheduling=scheduling.settle(
                arguments.get("async-scheduling"), asked.why_synchronous, "async-scheduling"
            ),
            num_gpu_blocks_override=_positive(arguments, "num-gpu-blocks-override"),
            speculative=asked.speculative,
        ),
        memory_share=_memory_share(arguments, engine),
        kv_cache_bytes=_positive(arguments, "kv-cache-memory-bytes"),
        length_is_auto=asked_length == _AUTO,
        notes=uncounted.sentences(arguments, engine),
    )


def _check_length(asked: int | None, longest: int, model: ModelShape) -> None:
    if not model.length_is_known:
        if asked in (None, _AUTO):
            _refuse_length("is needed: the model's config does not tell how many tokens it allows")
        return
    if longest > model.longest_model_len:
        _refuse_length(
            f"{longest} is above the {model.longest_model_len} tokens that the model's config "
            "allows; lower it to that"
        )


def _refuse_length(problem: str) -> NoReturn:
    raise Refused(Reason.LENGTH_INVALID, f"max-model-len {problem}", "max-model-len")


def _memory_share(arguments: Mapping[str, Any], engine: Engine) -> float:
    default = engine.flags["--gpu-memory-utilization"].default
    share = float(arguments.get("gpu-memory-utilization", default))
    if not 0 < share <= 1:  # not a number is neither
        _refuse("gpu-memory-utilization", f"must be above 0 and at most 1, not {share:g}")
    return share


def _model_dtype(arguments: Mapping[str, Any]) -> str:
    spelled: str = arguments.get("dtype", "auto")
    return {"half": "float16", "float": "float32"}.get(spelled, spelled)


def _kv_cache_dtype(arguments: Mapping[str, Any], engine: Engine) -> str:
    """Return the KV type by the engine's own name, unlike the friendlier ones of a resource."""
    dtype: str = arguments.get("kv-cache-dtype", "auto")
    if dtype not in engine.kv_cache_dtypes:
        raise Refused(
            Reason.KV_DTYPE_UNSUPPORTED,
            f"kv-cache-dtype: vLLM {engine.version} has no {dtype!r:.60}; use one of "
            f"{', '.join(engine.kv_cache_dtypes)}",
            "kv-cache-dtype",
        )
    return dtype


def _skip_layers(arguments: Mapping[str, Any]) -> tuple[int, ...]:
    layers = [layer for layer in _skipped(arguments) if layer != _WINDOWS]
    for layer in layers:
        if not (layer.isascii() and layer.isdecimal() and len(layer) < 6):
            _refuse(
                "kv-cache-dtype-skip-layers",
                f"{layer!r:.60} is no number of a layer; give numbers, or {_WINDOWS}",
            )
    return tuple(sorted({int(layer) for layer in layers}))


def _skipped(arguments: Mapping[str, Any]) -> Sequence[str]:
    return arguments.get("kv-cache-dtype-skip-layers") or ()


def _attention_backend(arguments: Mapping[str, Any], engine: Engine) -> str | None:
    config = arguments.get("attention-config") or {}
    nested = config.get("backend") if isinstance(config, Mapping) else None
    backend = arguments.get("attention-backend", nested)
    if backend is None or str(backend).lower() == "auto":
        return None
    if str(backend).upper() not in engine.attention_backends:
        raise Refused(
            Reason.ATTENTION_BACKEND_UNSUPPORTED,
            f"attention-backend: vLLM {engine.version} has no {backend!r:.60}; it has "
            f"{', '.join(engine.attention_backends)}",
            "attention-backend",
        )
    return str(backend).upper()


def _positive(arguments: Mapping[str, Any], name: str) -> int | None:
    value: int | None = arguments.get(name)
    if value is not None and value < 1:
        _refuse(name, f"must be at least 1, not {value}")
    return value


def _parallel(arguments: Mapping[str, Any], name: str) -> int:
    size: int = arguments.get(name, 1)
    if size < 1 or math.log2(size) > 20:
        raise Refused(
            Reason.PARALLELISM_INVALID, f"{name} must be from 1 to 1048576, not {size}", name
        )
    return size


def _refuse(name: str, problem: str) -> NoReturn:
    raise Refused(Reason.FLAG_UNSUPPORTED, f"{name} {problem}", name)
