"""Host memory of an engine pod that Tidegate itself asks for: what lies in /dev/shm."""

from tidegate.api.llmdeployment import LLMDeploymentSpec

_BYTES_OF_A_PROCESS = 2**30
"""For each process of the engine: the first makes two segments of 400 MiB in all, and each worker
adds its own and what NCCL needs. It is a ceiling: only what is written counts as memory."""


def shared_bytes(spec: LLMDeploymentSpec, gpus: int) -> int:
    """Return the size of /dev/shm: the engine keeps offloaded KV there, too, from its start on."""
    return (1 + gpus) * _BYTES_OF_A_PROCESS + offload_bytes(spec)


def offload_bytes(spec: LLMDeploymentSpec) -> int:
    """Return the host memory for offloaded KV of each pod."""
    return spec.kv_cache.offload.cpu if spec.kv_cache.offload else 0
