"""What the cluster benches apply: small deployments of two pods, and plain Deployments as such."""

from pathlib import Path

import yaml

from bench.private_cluster import NAMESPACE, Document

EXAMPLES = Path(__file__).parents[1] / "examples"
PODS_OF_EACH = 2
PAIR_EVERY = 5
"""One deployment in so many is a prefill/decode pair; the others have one pool."""


def llmdeployments(count: int) -> list[Document]:
    """Return LLMDeployments, each of two pods that may land on any class of node."""
    texts = [(EXAMPLES / f"{name}.yaml").read_text() for name in ("unified", "prefill-decode")]
    found = []
    for number in range(count):
        is_pair = number % PAIR_EVERY == PAIR_EVERY - 1
        document: Document = yaml.safe_load(texts[is_pair])
        document["metadata"] = {"name": f"model-{number:03d}", "namespace": NAMESPACE}
        pools = document["spec"]["pools"]
        for pool in pools.values():
            del pool["nodeSelector"]
            pool["replicas"] = PODS_OF_EACH // len(pools)
        document["spec"]["gate"] = {"enabled": False}  # nodes on paper run no gate that answers
        found.append(document)
    return found


def plain(count: int) -> list[Document]:
    """Return Kubernetes' own Deployments with as many pods that ask for as many GPUs."""
    return [_plain(f"plain-{number:03d}") for number in range(count)]


def _plain(name: str) -> Document:
    labels = {"app": name}
    amounts = {"cpu": "100m", "memory": "2Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "engine",
        "image": "localhost/vllm-cpu:v0.32.0",
        "resources": {"requests": amounts, "limits": amounts},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": PODS_OF_EACH,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
