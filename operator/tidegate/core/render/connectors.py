"""Where the engine's KV goes besides its GPUs: to the partner of a pair, and to host memory.

An engine has one connector. `--kv-offloading-size` puts its own in the place of any other without
a word, so a pool that both hands KV over and offloads it is told of a MultiConnector of two.
"""

import math
from typing import Any

from tidegate.api.engine_spec import KVCacheSpec, Offload, Transfer

ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
"""The pools that hand KV over, and their part in it."""


def transfer(kv_cache: KVCacheSpec, pool: str) -> dict[str, Any]:
    """Return the value of --kv-transfer-config for a pool of a pair."""
    handing_over = _handing_over(kv_cache.transfer, pool)
    if kv_cache.offload is None:
        return handing_over
    # Both load KV, so the engine must take the whole as a consumer and a producer. The order is
    # that of the search for KV: what the partner holds comes first.
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": kv_cache.transfer.failure_policy,
        "kv_connector_extra_config": {"connectors": [handing_over, _offloading(kv_cache.offload)]},
    }


def gib(count_bytes: int) -> int | float:
    """Return bytes as the engine takes them for --kv-offloading-size: GiB, of all GPUs together."""
    whole, rest = divmod(count_bytes, 2**30)
    return count_bytes / 2**30 if rest else whole


def _handing_over(settings: Transfer, pool: str) -> dict[str, Any]:
    return {
        "kv_connector": f"{settings.connector}Connector",
        "kv_role": ROLES[pool],
        "kv_load_failure_policy": settings.failure_policy,
        "kv_connector_extra_config": {"kv_lease_duration": math.ceil(settings.lease)},
    }


def _offloading(offload: Offload) -> dict[str, Any]:
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": offload.cpu},
    }
