"""Engines of the model of these tests: what they tell of their memory, by metrics and by log."""

import hashlib
import math
from dataclasses import dataclass, field

from tidegate.facts import cache_config, gpus
from tidegate.facts.cache_config import CacheConfig
from tidegate.flow.ports import Document, ReadFailed

GIB = 2**30
_BYTES_PER_TOKEN = 2 * 4 * 2 * 32 * 2  # keys and values, 4 layers, 2 heads of 32, two bytes
_PRODUCT = "NVIDIA-A100-SXM4-80GB"


@dataclass
class Engines:
    """What each engine finds; `asked` are the pods that were asked, and what is silent fails."""

    weights_bytes: int = GIB // 4
    activations_bytes: int = GIB // 4
    non_torch_bytes: int = GIB // 4
    is_silent: bool = False
    answers: dict[str, str] = field(default_factory=dict)  # by pod: a page in place of its own
    asked: list[str] = field(default_factory=list)

    async def cache_config(self, pod: Document) -> CacheConfig:
        name = pod["metadata"]["name"]
        self.asked.append(name)
        if self.is_silent:
            raise ReadFailed(f"{name}: no answer")
        told = cache_config.read(self.answers.get(name, self.metrics(pod)))
        if told is None:
            raise ReadFailed(f"{name}: nothing told")
        return told

    def metrics(self, pod: Document) -> str:
        flags = _flags(pod)
        given = flags.get("--kv-cache-memory-bytes")
        utilization = float(flags["--gpu-memory-utilization"])
        block, longest = int(flags["--block-size"]), int(flags["--max-model-len"])
        kv_bytes = int(given) if given else self._left(utilization)
        blocks = kv_bytes // (_BYTES_PER_TOKEN * block)
        concurrency = blocks / math.ceil(longest / block)
        labels = {
            "block_size": block,
            "cache_dtype": "auto",
            "gpu_memory_utilization": utilization,
            "kv_cache_max_concurrency": concurrency,
            "kv_cache_memory_bytes": given,
            "kv_cache_size_tokens": int(concurrency * longest),
            "num_gpu_blocks": blocks,
        }
        text = ",".join(f'{name}="{value}"' for name, value in labels.items())
        return f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{text}}} 1.0\n"

    def log(self, pod: Document) -> str:
        flags = _flags(pod)
        loading = f"Model loading took {_gib(self.weights_bytes)} GiB memory and 3.200000 seconds"
        if "--kv-cache-memory-bytes" in flags:
            given = _gib(int(flags["--kv-cache-memory-bytes"]))
            return (
                f"{loading}\nInitial free memory 78.5 GiB, reserved {given} GiB memory for KV "
                "Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.\n"
            )
        utilization = float(flags["--gpu-memory-utilization"])
        consumed = self.weights_bytes + self.non_torch_bytes
        return (
            f"{loading}\nAvailable KV cache memory: {_gib(self._left(utilization))} GiB\n"
            f"Free memory on device (78.5/{_gib(_total_bytes())} GiB) on startup. Desired GPU "
            f"memory utilization is ({utilization}, 71.2 GiB). Actual usage is {_gib(consumed)} "
            "GiB for consumed memory (weights + non-torch), "
            f"{_gib(self.activations_bytes)} GiB for peak activation, and 0.0 GiB "
            "for CUDAGraph memory. Replace gpu_memory_utilization config\n"
        )

    def _left(self, utilization: float) -> int:
        beside = self.weights_bytes + self.activations_bytes + self.non_torch_bytes
        return math.ceil(_total_bytes() * utilization) - beside


def image_id(image: str) -> str:
    """Return what a kubelet calls an image that it pulled."""
    repository = image.partition("@")[0].rpartition(":")[0]
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


def _total_bytes() -> int:
    card = gpus.find(_PRODUCT, 81920)
    assert card is not None
    return card.cuda_total.bytes


def _flags(pod: Document) -> dict[str, str]:
    arguments = pod["spec"]["containers"][0]["args"]
    return dict(word.split("=", 1) for word in arguments if "=" in word)


def _gib(count_bytes: int) -> str:
    return str(round(count_bytes / GIB, 2))
