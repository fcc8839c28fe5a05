"""The cluster as one object: what the command line and the tests do with it."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from . import (
    binaries,
    cgroups,
    control_plane,
    host,
    images,
    network,
    node,
    node_classes,
    packages,
    residue,
    startup,
)
from .api import MERGE_PATCH, Client
from .errors import ClusterError
from .node_classes import NodeClass, NodePlan
from .processes import GRACE_SECONDS, Process, Supervisor
from .settings import Settings

DEFAULT_NODES = 2


class Cluster:
    """A real Kubernetes cluster on this machine, for tests.

    Every method works from any network namespace, so also in a test that runs by
    `scripts/cluster exec`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """Starts nothing; without `settings` the environment decides."""
        self.settings = settings or Settings.from_environment()
        self._supervisor = Supervisor(self.settings, binaries.search_path(self.settings))

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig; its address is valid in the cluster's namespace."""
        return self.settings.kubeconfig

    def env(self) -> dict[str, str]:
        """Variables for a command that uses the cluster: KUBECONFIG, and PATH with kubectl."""
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": binaries.search_path(self.settings),
            "TIDEGATE_CLUSTER_STATE": str(self.settings.state),
            "TIDEGATE_CACHE": str(self.settings.cache),
        }

    def client(self) -> Client:
        """A client of the API as administrator; close it after use."""
        return Client(self.settings)

    # as a whole

    def up(self, count: int | None = None, plan: NodePlan | None = None) -> None:
        """Start what does not run, and wait until it is ready; a second time it changes nothing.

        Args:
            count: Nodes n1 to n<count>; without it as many as the last time, or 2. Nodes beyond
                the count that exist are started too: `reset` removes them.
            plan: Classes of the nodes; without it those of the last time, or of `nodes.json`.
        """
        if os.geteuid():
            raise ClusterError("run it as root: it makes network namespaces and cgroups")
        packages.install()
        binaries.build(self.settings)
        with self._locked():
            self._check_fingerprint()
            residue.save_sysctls(self.settings)
            nodes = self._wanted(count)
            network.create(self.settings, len(nodes))
            startup.start_control_plane(self.settings, self._supervisor)
            if nodes:
                self._mount_memory()
                startup.start_nodes(self.settings, self._supervisor, nodes)
            for one in nodes:
                self.set_node_class(one.name, self._plan(plan).of(one.number))

    def down(self) -> None:
        """End everything that `up` started; certificates, objects and disks stay."""
        if self.settings.state.exists():
            with self._locked():
                self._down()

    def reset(self) -> None:
        """`down`, and forget every object, node and container; certificates and images stay."""
        if self.settings.state.exists():
            with self._locked():
                self._down()
                shutil.rmtree(self.settings.state / "etcd", ignore_errors=True)
                for one in node.existing(self.settings):
                    one.forget(self._supervisor)
                shutil.rmtree(self.settings.logs, ignore_errors=True)
                (self.settings.state / "nodes.json").unlink(missing_ok=True)

    def clean(self) -> None:
        """`down`, and remove everything that the cluster made, but not the cache."""
        with self._locked():
            self._down()
            self._supervisor.kill_strays()
            cgroups.kill(self.settings.name)
            host.unmount_under(self.settings.state)
            network.remove(self.settings)
            residue.remove(self.settings)
            shutil.rmtree(self.settings.state)

    # faults

    def stop(self, name: str, grace_seconds: float = GRACE_SECONDS) -> None:
        """End one process, as `kubelet-n1`, or a node with its pods, as `n1`.

        With `grace_seconds` 0 a process ends by SIGKILL, as in a crash.
        """
        one = self._node(name)
        if one:
            one.kill(self._supervisor)
        else:
            self._supervisor.stop(self._process(name).name, grace_seconds)

    def start(self, name: str) -> None:
        """Start a process or a node that was stopped, and wait until it is ready."""
        one = self._node(name)
        if one:
            startup.start_nodes(self.settings, self._supervisor, [one])
            return
        self._supervisor.start(self._process(name))
        if name in ("etcd", "kube-apiserver"):
            startup.wait_for_api(self.settings, self._supervisor)

    def pids(self) -> Mapping[str, int | None]:
        """Pid of every process that was started and not stopped; None for a dead one."""
        return {name: self._supervisor.pid(name) for name in self._supervisor.names()}

    # images and nodes

    def load_image(self, tar: Path) -> None:
        """Give the images of a tar to every node, also to nodes that join later.

        An image with the same reference that was loaded before is replaced.
        """
        with self._locked():
            kept = images.keep(self.settings, tar)
            for one in node.existing(self.settings):
                if self._supervisor.pid(f"containerd-{one.name}"):
                    one.import_images([kept])

    def set_node_class(self, name: str, node_class: NodeClass) -> None:
        """Give a node other GPUs: labels and capacity, at once and until the next `up`."""
        with self.client() as client:
            path = f"/api/v1/nodes/{name}"
            labels = client.get(path)["metadata"].get("labels", {})
            metadata, status = node_classes.patches(node_class, labels)
            client.request("PATCH", path, metadata, MERGE_PATCH)
            client.request("PATCH", f"{path}/status", status, MERGE_PATCH)

    # parts

    def _locked(self) -> AbstractContextManager[None]:
        return host.locked(self.settings.state / "lock")

    def _check_fingerprint(self) -> None:
        """Certificates and etcd hold addresses: a state made with others would fail in odd ways."""
        file = self.settings.state / "settings.json"
        if not file.exists():
            host.write_if_changed(file, self.settings.fingerprint())
        elif json.loads(file.read_text()) != self.settings.fingerprint():
            raise ClusterError(
                f"{self.settings.state} was made with another name or other networks; restore the "
                "TIDEGATE_CLUSTER_* variables, or run `scripts/cluster clean` with them"
            )

    def _wanted(self, count: int | None) -> list[node.Node]:
        there = [one.number for one in node.existing(self.settings)]
        least = (len(there) or DEFAULT_NODES) if count is None else count
        return [node.Node(self.settings, number + 1) for number in range(max([least, *there]))]

    def _mount_memory(self) -> None:
        nodes = self.settings.nodes
        if self.settings.nodes_in_memory and not nodes.is_mount():
            nodes.mkdir(parents=True, exist_ok=True)
            host.run("mount", "-t", "tmpfs", "-o", "mode=755", "tidegate", nodes)

    def _plan(self, given: NodePlan | None) -> NodePlan:
        """The plan to use, which is remembered for the next `up`."""
        file = self.settings.state / "nodes.json"
        if given:
            host.write_if_changed(file, given.document())
        return node_classes.load(file if file.exists() else node_classes.DEFAULT_FILE)

    def _node(self, name: str) -> node.Node | None:
        return next((one for one in node.existing(self.settings) if one.name == name), None)

    def _process(self, name: str) -> Process:
        nodes = node.existing(self.settings)
        every = [
            *control_plane.processes(self.settings),
            *(process for one in nodes for process in one.processes()),
        ]
        for process in every:
            if process.name == name:
                return process
        names = [*(process.name for process in every), *(one.name for one in nodes)]
        raise ClusterError(f"no process {name!r}; there are: {', '.join(names)}")

    def _down(self) -> None:
        for one in node.existing(self.settings):
            one.kill(self._supervisor)
        for name in reversed(control_plane.NAMES):
            self._supervisor.stop(name)
        residue.restore_sysctls(self.settings)
