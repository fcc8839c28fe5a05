"""Documents as users and kubelets write them, and what they say."""

from typing import Any

from tidegate.flow.ports import Document

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


def a_spec(**parts: Any) -> Document:
    spec: Document = {
        "model": {"id": "/models/tiny", "config": CONFIG},
        "engine": {
            "image": "registry.local/vllm:v0.32.0",
            "maxModelLen": 2048,
            "maxNumSeqs": 8,
            "maxNumBatchedTokens": 2048,
            "enforceEager": True,
        },
        "budget": {"kvCache": "64Mi"},
        "pools": {"unified": {"replicas": 2}},
    }
    for name, part in parts.items():
        replace = name in ("pools", "rollout") or not isinstance(spec.get(name), dict)
        spec[name] = part if replace else {**spec[name], **part}
    return spec


def is_ready(pod: Document) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ())
    )


def labels_of(document: Document) -> dict[str, str]:
    labels: dict[str, str] = document["metadata"].get("labels", {})
    return labels


def is_ending(pod: Document) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def owns(deployment: Document, pod: Document) -> bool:
    return any(
        owner["uid"] == deployment["metadata"]["uid"]
        for owner in pod["metadata"].get("ownerReferences", ())
    )


def matches(pod: Document, node: Document) -> bool:
    labels = node["metadata"]["labels"]
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    return any(
        all(labels.get(e["key"]) in e["values"] for e in term["matchExpressions"])
        for term in required["nodeSelectorTerms"]
    )


def container(**parts: Any) -> Document:
    return {"name": "engine", "ready": False, "restartCount": 0, **parts}


def not_ready(container: Document) -> Document:
    return {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [container],
    }
