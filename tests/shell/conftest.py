"""A real API server: the one that KUBECONFIG names, as `scripts/cluster exec` sets it."""

import os
import subprocess
import uuid

import pytest
import yaml

from tidegate.api import crd
from tidegate.flow.ports import Document
from tidegate.shell.api_server import ApiServer


def kubectl(*arguments: str, check: bool = True, **options: object) -> subprocess.CompletedProcess:
    """Run kubectl as the cluster's administrator."""
    return subprocess.run(
        ["kubectl", *arguments], check=check, capture_output=True, text=True, timeout=60, **options
    )


@pytest.fixture(scope="session")
def kubeconfig() -> str:
    """The kubeconfig of a running API server that has our kind."""
    path = os.environ.get("KUBECONFIG")
    if not path:
        pytest.fail("no API server: run `scripts/cluster up` and `scripts/cluster exec pytest ...`")
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=crd.generate())
    kubectl(
        "wait", "--for=condition=Established", "crd/llmdeployments.tidegate.io", "--timeout=30s"
    )
    return path


@pytest.fixture
def namespace(kubeconfig):
    """A namespace of the test's own."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
async def api(kubeconfig):
    """A connection to the API server."""
    server = await ApiServer.connect(kubeconfig, None)
    yield server
    await server.close()


@pytest.fixture
def deployment(namespace) -> Document:
    """A small LLMDeployment in the test's namespace, not applied yet."""
    return yaml.safe_load(f"""
        apiVersion: tidegate.io/v1alpha1
        kind: LLMDeployment
        metadata: {{name: qwen, namespace: {namespace}}}
        spec:
          model: {{id: Qwen/Qwen3-0.6B}}
          engine: {{image: "vllm/vllm-openai:v0.32.0", maxModelLen: 4096}}
          pools: {{unified: {{replicas: 1}}}}
    """)
