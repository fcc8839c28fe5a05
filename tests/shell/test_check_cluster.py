"""`tidegate check --cluster`: the verdict on a file, by the nodes of a real API server."""

import json
import os
import subprocess
import sys
import uuid

import pytest
import yaml
from tests.shell.conftest import kubectl

CLASS = "tidegate.io/test-class"


def check(path, *words, kubeconfig=None):
    environment = {**os.environ, "KUBECONFIG": kubeconfig or os.environ["KUBECONFIG"]}
    return subprocess.run(
        [sys.executable, "-m", "tidegate", "check", "-f", str(path), *words],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
    )


@pytest.fixture
def own_class():
    """A label's value that no other test's nodes have."""
    return uuid.uuid4().hex[:8]


@pytest.fixture
def card(kubeconfig, own_class):
    """Adds a Node with one GPU of a product; no kubelet is behind it."""
    made = []

    def add(product, memory_mib):
        name = f"check-{uuid.uuid4().hex[:8]}"
        labels = {
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": str(memory_mib),
            "nvidia.com/gpu.count": "1",
            CLASS: own_class,
        }
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        kubectl("create", "-f", "-", input=json.dumps(node))
        made.append(name)
        has = {"status": {"allocatable": {"nvidia.com/gpu": "1"}}}
        kubectl("patch", "node", name, "--subresource=status", "-p", json.dumps(has))

    yield add
    for name in made:
        kubectl("delete", "node", name, "--wait=false")


@pytest.fixture
def resource(tmp_path, namespace, own_class):
    """Writes an LLMDeployment whose pods land on this test's nodes only."""

    def write(**model):
        document = {
            "apiVersion": "tidegate.io/v1alpha1",
            "kind": "LLMDeployment",
            "metadata": {"name": "qwen", "namespace": namespace},
            "spec": {
                "model": {"id": "Qwen/Qwen3-8B", **model},
                "engine": {"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": 4096},
                "pools": {"unified": {"nodeSelector": {CLASS: own_class}}},
            },
        }
        path = tmp_path / "qwen.yaml"
        path.write_text(yaml.safe_dump(document))
        return path

    return write


def test_the_nodes_of_the_cluster_decide(resource, card):
    card("NVIDIA-L4", 4096)
    path = resource()
    refused = check(path, "--cluster")
    assert refused.returncode == 1, refused.stdout
    assert "refused: WeightsDoNotFit" in refused.stdout

    card("NVIDIA-H100-80GB-HBM3", 81559)
    fits = check(path, "--cluster")
    assert fits.returncode == 0, fits.stdout
    assert "warning: WeightsDoNotFit" in fits.stdout, "the small card is named, and left out"


def test_a_config_in_a_config_map_is_read_from_the_cluster(resource, card, namespace):
    card("NVIDIA-H100-80GB-HBM3", 81559)
    path = resource(id="team/own", configRef={"name": "own", "key": "config.json"})
    missing = check(path, "--cluster")
    assert "does not exist" in missing.stdout

    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
    }
    words = ("create", "configmap", "own", "-n", namespace)
    kubectl(*words, f"--from-literal=config.json={json.dumps(config)}")
    found = check(path, "--cluster")
    assert found.returncode == 0, found.stdout
    assert "does not exist" not in found.stdout


def test_a_cluster_that_is_away_is_told_in_one_line(resource, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "x", "user": {"token": "x"}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "current-context": "x",
            }
        )
    )

    done = check(resource(), "--cluster", kubeconfig=str(path))

    assert done.returncode not in (0, 1)
    assert "--cluster" in done.stderr
    assert "Traceback" not in done.stderr
