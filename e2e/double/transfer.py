"""`kv_transfer_params` of the NIXL connector: what a request asks, and what an answer says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from e2e.double.sequences import RemoteKV, Sequence


class EngineKilled(Exception):
    """The parameters break the engine, as they break vLLM's.

    Args:
        error: the last line of the engine's traceback.
        is_silent: the client gets no answer.
    """

    def __init__(self, error: str, *, is_silent: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.is_silent = is_silent


@dataclass(frozen=True)
class Source:
    """Where decode engines fetch from, as a prefill engine tells them.

    Attributes:
        has_generation: whether this version names the registration's generation (0.33 does).
    """

    engine_id: str
    host: str
    port: int
    tensor_parallel: int
    pipeline_parallel: int
    has_generation: bool = False


def keeps_blocks(params: dict[str, Any] | None) -> bool:
    """Tell whether a request is the first step of a pair: its blocks are kept for the second."""
    return bool(params and params.get("do_remote_decode"))


def remote(params: dict[str, Any] | None) -> RemoteKV | None:
    """Return what the second step of a pair fetches; None to compute the prompt here.

    Raises:
        EngineKilled: a field is missing or has another form.
    """
    if not params or not params.get("do_remote_prefill"):
        return None
    if not params.get("remote_block_ids") or params.get("remote_num_tokens") is None:
        raise EngineKilled("AssertionError: assert num_external_tokens == 0")
    for name in ("remote_request_id", "remote_engine_id", "remote_host", "remote_port"):
        if params.get(name) is None:
            raise EngineKilled(f"KeyError: '{name}'", is_silent=True)
    groups = params["remote_block_ids"]
    if not isinstance(groups, list) or not all(isinstance(group, list) for group in groups):
        kind = type(groups[0] if isinstance(groups, list) else groups).__name__
        raise EngineKilled(f"TypeError: '{kind}' object is not iterable")
    try:
        return RemoteKV(
            engine_id=str(params["remote_engine_id"]),
            request_id=str(params["remote_request_id"]),
            host=str(params["remote_host"]),
            port=int(params["remote_port"]),
            block_ids=tuple(int(block) for block in groups[0]),
            token_count=int(params["remote_num_tokens"]),
        )
    except (TypeError, ValueError) as error:
        raise EngineKilled(f"{type(error).__name__}: {error}") from error


def answer(sequence: Sequence, source: Source) -> dict[str, Any]:
    """Return the parameters that the answer of the first step carries."""
    generation = {"remote_registration_generation": 0} if source.has_generation else {}
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [list(sequence.held_blocks)],
        "remote_engine_id": source.engine_id,
        "remote_request_id": sequence.id,
        "remote_host": source.host,
        "remote_port": source.port,
        "tp_size": source.tensor_parallel,
        "dcp_size": 1,
        "pp_size": source.pipeline_parallel,
        "remote_num_tokens": sequence.length - 1,
        "remote_blocks_expiry_time": None,
        "transfer_mode": "pull",
        "remote_prefill_cached_tokens": sequence.local_hit_tokens,
        **generation,
    }
