"""`--kv-transfer-config`: the KV connector of an engine, and what must be equal on both sides."""

from __future__ import annotations

import hashlib
import json
from argparse import ArgumentTypeError
from dataclasses import dataclass, field
from typing import Any

ROLES = ("kv_producer", "kv_both", "kv_consumer")
POLICIES = ("recompute", "fail")
FIELDS = frozenset(
    {
        *("kv_connector", "kv_role", "engine_id", "kv_buffer_device", "kv_port"),
        *("kv_connector_extra_config", "kv_connector_module_path"),
        *("enable_permute_local_kv", "kv_load_failure_policy"),
    }
)
PULLING = ("NixlConnector", "NixlPullConnector")


@dataclass(frozen=True)
class Connector:
    """A KV connector as it was configured.

    Attributes:
        engine_id: as configured; empty for a new one at each start.
        recomputes: whether a decode engine computes a prompt itself when its KV cannot be fetched.
        lease_seconds: how long a prefill engine keeps the blocks of a finished prefill.
        checks_compatibility: refuse a pair whose configurations differ.
    """

    name: str
    role: str
    engine_id: str = ""
    recomputes: bool = False
    lease_seconds: float = 30.0
    checks_compatibility: bool = True

    @property
    def moves_kv(self) -> bool:
        """Whether the double implements this connector's transfer."""
        return self.name in PULLING

    @property
    def is_consumer(self) -> bool:
        """Whether the engine may fetch KV."""
        return self.role in ("kv_consumer", "kv_both")


@dataclass(frozen=True)
class Identity:
    """What a prefill and a decode engine must have in common."""

    vllm_version: str
    model: str
    dtype: str
    layers: int
    kv_heads: int
    head_dim: int
    cache_dtype: str
    attention_backend: str
    has_hybrid_manager: bool
    extra: tuple[str, ...] = field(default=())

    def digest(self) -> str:
        """Return the compatibility hash."""
        return hashlib.sha256(repr(self).encode()).hexdigest()


def parse(text: str) -> dict[str, Any]:
    """Check the JSON of the flag as vLLM's argument parser does, and return it.

    Raises:
        ArgumentTypeError: not an object, an unknown field, or a value that is not allowed.
    """
    try:
        given = json.loads(text)
    except ValueError:
        raise ArgumentTypeError(
            "1 validation error for KVTransferConfig\n  Invalid JSON: expected "
            "ident at line 1 column 2"
        ) from None
    if not isinstance(given, dict):
        raise _invalid("", "Input should be an object")
    for name in given:
        if name not in FIELDS:
            raise _invalid(name, "Unexpected keyword argument")
    if given.get("kv_role") not in (None, *ROLES):
        raise _invalid("kv_role", "Input should be 'kv_producer', 'kv_both' or 'kv_consumer'")
    if given.get("kv_load_failure_policy", "fail") not in POLICIES:
        raise _invalid("kv_load_failure_policy", "Input should be 'recompute' or 'fail'")
    if given.get("kv_connector") and not given.get("kv_role"):
        raise _invalid(
            "",
            "Value error, Please specify kv_role when kv_connector is set, supported "
            f"roles are {ROLES}",
        )
    return given


def read(given: dict[str, Any] | None) -> Connector | None:
    """Return the connector of a checked flag; None where there is none."""
    if not given or not given.get("kv_connector"):
        return None
    extra = given.get("kv_connector_extra_config") or {}
    return Connector(
        name=given["kv_connector"],
        role=given["kv_role"],
        engine_id=str(given.get("engine_id") or ""),
        recomputes=given.get("kv_load_failure_policy") == "recompute",
        lease_seconds=float(extra.get("kv_lease_duration", 30)),
        checks_compatibility=bool(extra.get("enforce_handshake_compat", True)),
    )


def _invalid(name: str, problem: str) -> ArgumentTypeError:
    where = f"{name}\n  " if name else "  "
    return ArgumentTypeError(f"1 validation error for KVTransferConfig\n{where}{problem}")
