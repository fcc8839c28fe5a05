"""Which flags a user may not pass by `engine.extraArgs`, and what to do instead.

`FIELDS` are flags that a field of the resource writes; `RESERVED` are those that Tidegate writes
itself, or that change what the plan rests on in a way that no field covers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_KV_BYTES = "spec.budget.kvCache"
_HUB = "spec.model.source"
_OFFLOAD = "spec.kvCache.offload.cpu"
_SPECULATIVE = "spec.engine.speculative"

FIELDS: Mapping[str, str] = {
    "--attention-backend": "spec.engine.attentionBackend",
    "--attention-config": "spec.engine.attentionBackend",
    "--block-size": "spec.kvCache.blockSize",
    "--dtype": "spec.model.weights.dtype",
    "--enable-chunked-prefill": "spec.engine.chunkedPrefill",
    "--enable-prefix-caching": "spec.engine.prefixCaching",
    "--enforce-eager": "spec.engine.enforceEager",
    "--gpu-memory-utilization": "spec.budget.safetyLine",
    "--hf-token": f"{_HUB}.huggingFace.tokenSecretRef",
    "--kv-cache-dtype": "spec.kvCache.dtype",
    "--kv-cache-dtype-skip-layers": "spec.kvCache.skipLayers",
    "--kv-cache-memory-bytes": _KV_BYTES,
    "--kv-offloading-size": _OFFLOAD,
    "--kv-transfer-config": "spec.kvCache.transfer",
    "--long-prefill-token-threshold": "spec.engine.longPrefillTokenThreshold",
    "--max-model-len": "spec.engine.maxModelLen",
    "--max-num-batched-tokens": "spec.engine.maxNumBatchedTokens",
    "--max-num-seqs": "spec.engine.maxNumSeqs",
    "--model": "spec.model.id",
    "--num-gpu-blocks-override": _KV_BYTES,
    "--pipeline-parallel-size": "spec.pools.*.pipelineParallel",
    "--quantization": "spec.model.weights.quantization",
    "--quantization-config": "spec.model.weights.quantization",
    "--revision": "spec.model.revision",
    "--served-model-name": "spec.model.servedNames",
    "--spec-method": _SPECULATIVE,
    "--spec-model": _SPECULATIVE,
    "--spec-tokens": _SPECULATIVE,
    "--speculative-config": _SPECULATIVE,
    "--tensor-parallel-size": "spec.pools.*.tensorParallel",
}

_LISTENS = "the pod's probes, Service and gate expect plain HTTP on port 8000"
_SHAPE = "it changes the model's shape, which the plan reads from its config.json; change that file"
_ONE_ENGINE = "a pod is one engine on its own GPUs; raise the pool's replicas"
_MEMORY = "the plan does not count the memory that it takes or frees"
_CODE = "it loads code of its own into the engine, which no plan knows; build it into the image"
_OPENS = "it opens endpoints that stop or rewrite the engine"
_LAYOUT = "the plan counts on the engine's own layout of the KV cache"

RESERVED: Mapping[str, str] = {
    "--api-key": "clients come through the gate, which has no key for the engines",
    "--config": "its file would bring flags past these checks; write them as arguments",
    "--cpu-offload-gb": _MEMORY,
    "--decode-context-parallel-size": "the plan does not divide the KV cache along the context",
    "--device-ids": "the device plugin says which GPUs a pod has",
    "--disable-hybrid-kv-cache-manager": _LAYOUT,
    "--disable-log-stats": "it ends the metrics that Tidegate reads",
    "--disable-sliding-window": _LAYOUT,
    "--download-dir": "the container's only place for files is /cache, and HF_HOME is in it",
    "--enable-sleep-mode": _MEMORY,
    "--grpc": _LISTENS,
    "--headless": _ONE_ENGINE,
    "--help": "the engine would print and exit",
    "--hf-config-path": _SHAPE,
    "--hf-overrides": _SHAPE,
    "--host": _LISTENS,
    "--kv-sharing-fast-prefill": _LAYOUT,
    "--io-processor-plugin": _CODE,
    "--kv-offloading-backend": "kvCache.offload is the engine's own tier in host memory",
    "--log-config-file": _CODE,
    "--logits-processors": _CODE,
    "--middleware": _CODE,
    "--mm-ipc-gpu-memory-gb": _MEMORY,
    "--model-class-overrides": _SHAPE,
    "--offload-backend": _MEMORY,
    "--offload-group-size": _MEMORY,
    "--port": _LISTENS,
    "--prefill-context-parallel-size": "the plan does not divide the KV cache along the context",
    "--profiler-config": _OPENS,
    "--reasoning-parser-plugin": _CODE,
    "--root-path": _LISTENS,
    "--scheduler-cls": _CODE,
    "--shutdown-timeout": "it follows from the pod's grace period",
    "--tool-parser-plugin": _CODE,
    "--tool-server": "it runs tools for clients in the engine's pod or calls other hosts for them",
    "--uds": _LISTENS,
    "--weight-transfer-config": _OPENS,
    "--worker-cls": _CODE,
    "--worker-extension-cls": _CODE,
}
_RESERVED_BEGINNINGS: Mapping[str, str] = {
    "--data-parallel-": _ONE_ENGINE,
    "--enable-ssl-": _LISTENS,
    "--grpc-": _LISTENS,
    "--mamba-block-": _LAYOUT,
    "--mamba-cache-dtype": _LAYOUT,
    "--mamba-ssm-": _LAYOUT,
    "--master-": _ONE_ENGINE,
    "--nnodes": _ONE_ENGINE,
    "--node-rank": _ONE_ENGINE,
    "--ssl-": _LISTENS,
}

_CODE_KEYS = frozenset(
    (
        "ec_connector_module_path",
        "inductor_passes",
        "kv_connector_module_path",
        "pylogging_config_file",
        "reasoning_parser_plugin",
        "tool_parser_plugin",
        "worker_cls",
        "worker_extension_cls",
    )
)
"""Keys of JSON flags that name a file or a class which the engine imports."""
_DUMMY = "the weights would be random numbers, and so would the answers"


def objection(flag: str) -> str | None:
    """Return why a flag is not the user's to pass, with what to do instead; None when it is."""
    if flag in FIELDS:
        return f"a field owns it: set {FIELDS[flag]} and remove it"
    if flag in RESERVED:
        return f"{RESERVED[flag]}; remove it"
    found = (why for start, why in _RESERVED_BEGINNINGS.items() if flag.startswith(start))
    why = next(found, None)
    return f"{why}; remove it" if why else None


def value_objection(flag: str, path: Sequence[str], values: Sequence[str]) -> str | None:
    """Return why a flag that is the user's may not have these values; None when it may.

    `path` are the keys of a dotted form, `values` what is given, JSON for flags that take it.
    """
    if flag == "--load-format" and "dummy" in values:
        return f"{_DUMMY}; remove it"
    if flag == "--distributed-executor-backend" and any("." in value for value in values):
        return f"{_CODE}; remove it"
    found = {key.rstrip("+").replace("-", "_") for key in (*path, *_keys(values))}
    named = sorted(found & _CODE_KEYS)
    return f"{named[0]}: {_CODE}; remove it" if named else None


def _keys(values: Sequence[str]) -> Iterator[str]:
    """Yield every key inside of values that are JSON."""
    waiting: list[Any] = []
    for value in values:
        try:
            waiting.append(json.loads(value) if value.lstrip()[:1] in ("{", "[") else None)
        except (ValueError, RecursionError):
            continue  # the flag's own reader says that it is no JSON
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield from item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
