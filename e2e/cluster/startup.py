"""Starting the daemons in order, and knowing when each part is ready."""

import datetime
import functools
import time

from . import containerd, control_plane, host, images
from .api import ApiError, Client
from .errors import ClusterError
from .node import Node
from .processes import Supervisor
from .settings import Settings

API_SECONDS = 60.0
NODES_SECONDS = 90.0
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
DEFAULT_ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def start_control_plane(settings: Settings, supervisor: Supervisor) -> None:
    """Start the control plane, and return when pods could be created."""
    started = time.monotonic()
    control_plane.prepare(settings)
    etcd, server, *others = control_plane.processes(settings)
    supervisor.start(etcd)
    supervisor.start(server)
    wait_for_api(settings, supervisor)
    for process in others:
        supervisor.start(process)
    with Client(settings) as client:
        binding = control_plane.dns_binding()
        client.apply(f"{BINDINGS}/{control_plane.DNS_BINDING}", binding)
        host.wait_until(
            lambda: client.exists(DEFAULT_ACCOUNT),
            "default ServiceAccount",
            API_SECONDS,
            settings.logs,
        )
    host.say(f"control plane is ready after {time.monotonic() - started:.1f} s")


def wait_for_api(settings: Settings, supervisor: Supervisor) -> None:
    """Wait until the API server is ready.

    Raises:
        ClusterError: It or etcd ended, or took too long.
    """
    with Client(settings) as client:

        def is_ready() -> bool:
            for name in ("etcd", "kube-apiserver"):
                if supervisor.pid(name) is None:
                    raise ClusterError(f"{name} ended; see {supervisor.log(name)}")
            return client.is_ready()

        host.wait_until(is_ready, "ready API server", API_SECONDS, settings.logs)


def start_nodes(settings: Settings, supervisor: Supervisor, nodes: list[Node]) -> None:
    """Start nodes with the images that every node has, and return when they are ready."""
    started = time.monotonic()
    since = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    images.keep(settings, images.pause_image(settings))
    fresh = set()
    for node in nodes:
        node.prepare()
        supervisor.start(node.processes()[0])
    for node in nodes:
        runtime, kubelet, proxy = node.processes()
        containerd.wait_for(node.run, supervisor.log(runtime.name))
        node.import_images(images.kept(settings))
        if supervisor.start(kubelet):
            fresh.add(node.name)
        supervisor.start(proxy)
    with Client(settings) as client:
        for node in nodes:
            limit = since if node.name in fresh else None
            host.wait_until(
                functools.partial(is_ready, client, node.name, limit),
                f"ready node {node.name}",
                NODES_SECONDS,
                settings.logs,
            )
    host.say(f"{len(nodes)} node(s) ready after {time.monotonic() - started:.1f} s")


def is_ready(client: Client, name: str, since: datetime.datetime | None) -> bool:
    """Whether a node is ready, by a report that is not older than `since`.

    The report of a kubelet that was stopped stays in the API until its grace period has passed.
    """
    try:
        status = client.get(f"/api/v1/nodes/{name}").get("status", {})
    except ApiError:
        return False
    for condition in status.get("conditions", ()):
        if condition["type"] == "Ready" and condition["status"] == "True":
            heard = datetime.datetime.fromisoformat(condition["lastHeartbeatTime"])
            return since is None or heard >= since
    return False
