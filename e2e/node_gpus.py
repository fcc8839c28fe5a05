"""How many GPUs nodes have to give, whatever their labels say: their class stays the same."""

from e2e.kube import MERGE_PATCH, Kube, path

RESOURCE = "nvidia.com/gpu"


def let_have(kube: Kube, count: int, node: str = "") -> None:
    """Set the capacity of one node, or of all; `Cluster.up` gives them what their class has."""
    for document in kube.list("nodes"):
        name = document["metadata"]["name"]
        if node in ("", name):
            amounts = {RESOURCE: str(count)}
            change = {"status": {"capacity": amounts, "allocatable": amounts}}
            kube.request("PATCH", f"{path('nodes', None, name)}/status", change, MERGE_PATCH)
