"""The engine container's environment: what Tidegate sets, and which of the user's it takes.

A variable is refused where Tidegate sets it itself or where it changes what the plan rests on.
What tunes the engine beyond that (`OMP_*`, `UCX_*`, `NCCL_*`, logging ...) is the user's own, and
so is `HF_ENDPOINT`, the address of a mirror of the hub.
"""

from typing import Any

from tidegate.api.engine_spec import EnvVar
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.model_spec import ModelSource
from tidegate.api.reasons import Reason
from tidegate.core import engine_variables, names
from tidegate.core.render import timing
from tidegate.core.render.expansion import literal
from tidegate.errors import Refused

CACHE = "/cache"
"""The only folder, beside /tmp and /dev/shm, that the container can write to."""
_FIELD = "spec.engine.env"

_FIXED = {
    "HOME": CACHE,
    "HF_HOME": f"{CACHE}/huggingface",
    "LOGNAME": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE}/inductor",
    "TRITON_CACHE_DIR": f"{CACHE}/triton",
    "USER": "vllm",  # the user id has no name in every image, and Python asks for one
    "VLLM_CACHE_ROOT": f"{CACHE}/vllm",
    # the engine gives its own workers up after 600 s, which a large model may take to load
    "VLLM_ENGINE_READY_TIMEOUT_S": str(timing.STARTUP_SECONDS),
    "VLLM_NO_USAGE_STATS": "1",
    "XDG_CACHE_HOME": f"{CACHE}/xdg",
}

_DEVICES = "the device plugin says which GPUs a pod has; set tensorParallel"
_CODE = "it changes which code the engine runs; build it into the image"
_CONNECTOR = "it changes the KV transfer; kvCache.transfer configures it"
_FOLDERS = f"the container can write only below {CACHE}, where Tidegate puts it"
_TOKEN = "set model.source.huggingFace.tokenSecretRef"
_OPENS = "it opens endpoints that stop or rewrite the engine"
_REFUSED: dict[str, str] = {
    "BASH_ENV": _CODE,
    "CC": _CODE,
    "CUDA_HOME": _CODE,
    "CUDA_INJECTION64_PATH": _CODE,
    "CUDA_VISIBLE_DEVICES": _DEVICES,
    "CXX": _CODE,
    "ENV": _CODE,
    "GCONV_PATH": _CODE,
    "GLIBC_TUNABLES": _CODE,
    "HF_HUB_CACHE": _FOLDERS,
    "HF_MODULES_CACHE": _CODE,
    "HF_TOKEN": _TOKEN,
    "HF_TOKEN_PATH": _TOKEN,
    "HIP_VISIBLE_DEVICES": _DEVICES,
    "HUGGINGFACE_HUB_CACHE": _FOLDERS,
    "HUGGING_FACE_HUB_TOKEN": _TOKEN,
    "NCCL_CONF_FILE": _CODE,
    "NCCL_ENV_PLUGIN": _CODE,
    "NCCL_NET_PLUGIN": _CODE,
    "NCCL_PROFILER_PLUGIN": _CODE,
    "NCCL_TUNER_PLUGIN": _CODE,
    "NVIDIA_VISIBLE_DEVICES": _DEVICES,
    "NVTX_INJECTION64_PATH": _CODE,
    "PATH": _CODE,
    "ROCR_VISIBLE_DEVICES": _DEVICES,
    "TMPDIR": _FOLDERS,
    "TORCH_EXTENSIONS_DIR": _CODE,
    "TRANSFORMERS_CACHE": _FOLDERS,
    "TRITON_PTXAS_PATH": _CODE,
    "UCX_MODULE_DIR": _CODE,
    "VLLM_API_KEY": "clients come through the gate, which has no key for the engines",
    "VLLM_ASSETS_CACHE": _FOLDERS,
    "VLLM_ATTENTION_BACKEND": "set engine.attentionBackend",
    "VLLM_CONFIG_ROOT": _FOLDERS,
    "VLLM_CPU_KVCACHE_SPACE": "it overrides the planned KV cache; set budget.kvCache",
    "VLLM_CUDART_SO_PATH": _CODE,
    "VLLM_HOST_IP": "it is the pod's address",
    "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "a dead engine would stay without being restarted",
    "VLLM_KV_CACHE_LAYOUT": "a pair must have one layout, which the connector chooses",
    "VLLM_LOGGING_CONFIG_PATH": _CODE,
    "VLLM_LOGGING_STREAM": _CODE,
    "VLLM_NCCL_SO_PATH": _CODE,
    "VLLM_PLUGINS": _CODE,
    "VLLM_PORT": f"the engine listens on port {names.ENGINE_PORT}",
    "VLLM_RPC_BASE_PATH": _FOLDERS,
    "VLLM_RUST_FRONTEND_PATH": _CODE,
    "VLLM_SERVER_DEV_MODE": _OPENS,
    "VLLM_TORCH_PROFILER_DIR": _OPENS,
    "VLLM_USE_MODELSCOPE": "it takes the model from another hub; set model.source",
    "VLLM_USE_SIMPLE_KV_OFFLOAD": _CONNECTOR,
}
# The fields that do the same as variables which change the plan.
_INSTEAD = {
    "CUDA_MPS_": "lower budget.safetyLine",
    "VLLM_DP_": "a pod is one engine; raise the pool's replicas",
    "VLLM_ENABLE_STARTUP_PLAN": "set budget.kvCache",
    "VLLM_MODEL_REDIRECT_PATH": "set model.id",
}
_REFUSED_PREFIXES: dict[str, str] = {
    "LD_": _CODE,
    "NVIDIA_MIG_": _DEVICES,
    "OPENSSL_": _CODE,
    "PYTHON": _CODE,
    "VLLM_MOONCAKE_": _CONNECTOR,
    "VLLM_NIXL_": _CONNECTOR,
    "VLLM_P2P_": _CONNECTOR,
}


def make(spec: LLMDeploymentSpec, pool: str) -> list[dict[str, Any]]:
    """Return the container's variables: Tidegate's by name, then the user's in their order.

    Raises:
        Refused: ENV_RESERVED with each variable that fights one of these, and what to do instead.
    """
    check(spec.engine.env)
    ours = [_value(name, value) for name, value in _FIXED.items()]
    ours.append(_pod_address("VLLM_HOST_IP"))
    if pool in ("prefill", "decode"):
        ours.append(_pod_address("VLLM_NIXL_SIDE_CHANNEL_HOST"))
        ours.append(_value("VLLM_NIXL_SIDE_CHANNEL_PORT", str(names.SIDE_CHANNEL_PORT)))
    ours += _hub_token(spec.model.source)
    return sorted(ours, key=lambda entry: entry["name"]) + [
        _own(entry) for entry in spec.engine.env
    ]


def check(variables: list[EnvVar]) -> None:
    """Refuse variables that fight Tidegate's; all of them are named at once."""
    faults = [
        f"env[{index}] {variable.name}: {fault}"
        for index, variable in enumerate(variables)
        if (fault := _fault(variable.name))
    ]
    if faults:
        raise Refused(Reason.ENV_RESERVED, "; ".join(faults), _FIELD)


def _fault(name: str) -> str | None:
    if name in _FIXED:
        return f"Tidegate sets it to {_FIXED[name]}; remove it"
    changes = engine_variables.why_not(name)
    if changes is not None:
        fields = (field for start, field in _INSTEAD.items() if name.startswith(start))
        return "; ".join((changes, *fields))
    if name in _REFUSED:
        return _REFUSED[name]
    found = (why for prefix, why in _REFUSED_PREFIXES.items() if name.startswith(prefix))
    return next(found, None)


def _hub_token(source: ModelSource | None) -> list[dict[str, Any]]:
    if source is None or source.hugging_face is None:
        return []
    reference = source.hugging_face.token_secret_ref.wire()
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}]


def _own(variable: EnvVar) -> dict[str, Any]:
    if variable.secret_key_ref is not None:
        reference = variable.secret_key_ref.wire()
        return {"name": variable.name, "valueFrom": {"secretKeyRef": reference}}
    return _value(variable.name, variable.value or "")


def _value(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": literal(value)}


def _pod_address(name: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
