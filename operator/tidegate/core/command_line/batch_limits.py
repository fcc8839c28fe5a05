"""The engine's batch limits: what is asked for, else its default for the GPU, capped as it does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.errors import Refused
from tidegate.facts.engines import Engine
from tidegate.facts.gpus import Gpu

# Expert parallel over data parallel ranks with these transports has a small default of its own.
_BATCHED_TRANSPORTS = ("deepep_low_latency", "nixl_ep")
_BATCHED_TOKENS = 256


@dataclass(frozen=True)
class BatchLimits:
    """Sequences and tokens in one step."""

    max_num_seqs: int
    max_num_batched_tokens: int


def settle(
    arguments: Mapping[str, Any], engine: Engine, gpu: Gpu, max_model_len: int
) -> BatchLimits:
    """Return the limits of the API server.

    Raises:
        Refused: BATCH_INVALID, a step could not hold what it must; names the flag and the fix.
    """
    asked_seqs, asked_tokens = (
        _asked(arguments, name) for name in ("max-num-seqs", "max-num-batched-tokens")
    )
    default = engine.batch_defaults(gpu.cuda_total.bytes, gpu.product, gpu.compute_capability)
    factor = 2 if arguments.get("performance-mode") == "throughput" else 1
    seqs = asked_seqs or default.max_num_seqs * factor
    is_chunked = arguments.get("enable-chunked-prefill", True)
    if asked_tokens is None:
        tokens = factor * (
            _BATCHED_TOKENS if _is_batched(arguments) else default.max_num_batched_tokens
        )
        if not is_chunked:
            tokens = max(tokens, max_model_len)
        tokens = min(tokens, seqs * max(1, max_model_len))
    else:
        tokens = asked_tokens
    if asked_seqs is None:
        seqs = min(seqs, tokens)
    _check(seqs, tokens, max_model_len, is_chunked)
    return BatchLimits(max_num_seqs=seqs, max_num_batched_tokens=tokens)


def _is_batched(arguments: Mapping[str, Any]) -> bool:
    return (
        arguments.get("all2all-backend") in _BATCHED_TRANSPORTS
        and arguments.get("enable-expert-parallel", False)
        and arguments.get("data-parallel-size", 1) > 1
    )


def _asked(arguments: Mapping[str, Any], name: str) -> int | None:
    value: int | None = arguments.get(name)
    if value is not None and value < 1:
        raise Refused(Reason.BATCH_INVALID, f"{name} must be at least 1, not {value}", name)
    return value


def _check(seqs: int, tokens: int, max_model_len: int, is_chunked: bool) -> None:
    if tokens < seqs:
        raise Refused(
            Reason.BATCH_INVALID,
            f"max-num-batched-tokens {tokens} is below max-num-seqs {seqs}: a step could not hold "
            "one token of each sequence; raise the first or lower the second",
            "max-num-batched-tokens",
        )
    if not is_chunked and tokens < max_model_len:
        raise Refused(
            Reason.BATCH_INVALID,
            f"max-num-batched-tokens {tokens} is below max-model-len {max_model_len} and chunked "
            "prefill is off: a long prompt would never run; turn it on or raise the first",
            "max-num-batched-tokens",
        )
