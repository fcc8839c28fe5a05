"""The pods that hold GPUs, as the cluster's cache of pods tells them."""

import asyncio
import contextlib

import pytest

from tidegate.core.nodes import GpuPod
from tidegate.shell.cluster import KubernetesCluster


def pod(version, gpus="2", phase="Running", node="n1", labels=None, resource="nvidia.com/gpu"):
    return {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "resourceVersion": str(version),
            "labels": labels or {},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"resources": {"limits": {resource: gpus}}}],
        },
        "status": {"phase": phase},
    }


class Server:
    """Lists nothing and then sends some events."""

    def __init__(self, events):
        self.events = [{"type": kind, "object": document} for kind, document in events]

    async def call(self, method, path, *, query, verb):
        return 200, {"metadata": {"resourceVersion": "1"}, "items": []}

    async def lines(self, path, query, silence_seconds):
        for event in self.events:
            yield event
        self.events = []
        await asyncio.Event().wait()


OURS = {"tidegate.io/deployment": "chat"}
HELD = GpuPod("ns", "p", "n1", 2)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([("ADDED", pod(2))], [HELD]),
        ([("ADDED", pod(2, gpus="0"))], []),
        (
            [("ADDED", pod(2, resource="nvidia.com/mig-1g.10gb"))],
            [GpuPod("ns", "p", "n1", 2, resource="nvidia.com/mig-1g.10gb")],
        ),
        ([("ADDED", pod(2, labels=OURS))], [GpuPod("ns", "p", "n1", 2, "chat")]),
        (
            [("ADDED", pod(2, node=None)), ("MODIFIED", pod(3))],
            [HELD],
        ),
        ([("ADDED", pod(2)), ("MODIFIED", pod(3, phase="Succeeded"))], []),
        ([("ADDED", pod(2, labels=OURS)), ("MODIFIED", pod(3, "2", "Failed", labels=OURS))], []),
        ([("ADDED", pod(2)), ("DELETED", pod(3))], []),
    ],
    ids=["another's", "none", "MIG devices", "ours", "bound later", "ended", "ours ended", "gone"],
)
async def test_what_pods_hold_follows_them(events, expected):
    woken, server = [], Server(events)
    cluster = KubernetesCluster(None, woken.append)
    [pods] = [cache for cache in cluster.caches() if cache.resource.kind == "Pod"]
    task = asyncio.create_task(pods.run(server))
    async with asyncio.timeout(5):
        while server.events or not pods.synced.is_set():
            await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert list(cluster.gpu_pods()) == expected
