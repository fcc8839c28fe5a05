"""A node: containerd, kubelet and kube-proxy in a network namespace and a cgroup of their own."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from . import certificates, cgroups, containerd, host
from .errors import ClusterError
from .processes import Process, Supervisor
from .settings import Settings

PROGRAMS = ("containerd", "kubelet", "kube-proxy")
"""In the order in which they start."""
FOLDERS = ("networks", "kubelet", "logs", "containerd", "volume-plugins")


@dataclass(frozen=True)
class Node:
    """Node `n<number>` and its places."""

    settings: Settings
    number: int

    @property
    def name(self) -> str:
        """Its name in the cluster."""
        return f"n{self.number}"

    @property
    def address(self) -> str:
        """Its InternalIP."""
        return self.settings.networks.node_address(self.number)

    @property
    def folder(self) -> Path:
        """Its disk."""
        return self.settings.nodes / self.name

    @property
    def run(self) -> Path:
        """What a reboot of the node would lose: sockets, mounts, pods' addresses."""
        return self.folder / "run"

    @property
    def cgroup(self) -> str:
        """The group of all its processes, pods included."""
        return f"{self.settings.name}/{self.name}"

    def prepare(self) -> None:
        """Write certificates and configuration."""
        settings, networks = self.settings, self.settings.networks
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        names = [f"IP:{self.address}", f"DNS:{self.name}"]
        subject = f"/O=system:nodes/CN=system:node:{self.name}"
        certificates.make(settings, f"kubelet-{self.name}", subject, names)
        certificates.make_kubeconfig(settings, f"kubelet-{self.name}", subject)
        host.write_if_changed(settings.configuration / "resolv.conf", "")
        host.write_if_changed(
            self.folder / "networks" / "10-ptp.conflist",
            containerd.network_configuration(
                settings.node_namespace(self.number),
                networks.node_pods_cidr(self.number),
                self.run / "addresses",
            ),
        )
        host.write_if_changed(
            self.folder / "containerd.toml",
            containerd.configuration(
                self.folder / "containerd",
                self.run,
                self.folder / "networks",
                containerd.major_version(),
            ),
        )
        host.write_if_changed(self.folder / "kubelet.json", self.kubelet_configuration())
        host.write_if_changed(self.folder / "kube-proxy.json", self.proxy_configuration())

    def processes(self) -> list[Process]:
        """Its daemons, in the order of `PROGRAMS`."""
        kubeconfig = self.settings.configuration / f"kubelet-{self.name}.conf"
        commands = (
            ("containerd", "--config", str(self.folder / "containerd.toml")),
            (
                "kubelet",
                f"--config={self.folder / 'kubelet.json'}",
                f"--kubeconfig={kubeconfig}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.address}",
                f"--root-dir={self.folder / 'kubelet'}",
                f"--cert-dir={self.folder / 'kubelet' / 'pki'}",
            ),
            ("kube-proxy", f"--config={self.folder / 'kube-proxy.json'}"),
        )
        return [
            Process(
                f"{program}-{self.name}",
                (*command, *self.settings.arguments(program)),
                self.settings.node_namespace(self.number),
                f"{self.cgroup}/runtime",
            )
            for program, command in zip(PROGRAMS, commands, strict=True)
        ]

    def kubelet_configuration(self) -> dict[str, object]:
        """The KubeletConfiguration."""
        settings = self.settings
        certificate = settings.certificates / f"kubelet-{self.name}"
        authority = str(settings.certificates / "ca.crt")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": authority},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{certificate}.crt",
            "tlsPrivateKeyFile": f"{certificate}.key",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{containerd.socket(self.run)}",
            "podLogsDir": str(self.folder / "logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            "clusterDomain": "cluster.local",
            "clusterDNS": [settings.networks.host_address],
            "resolvConf": str(settings.configuration / "resolv.conf"),
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,  # a lower one needs CAP_SYS_RESOURCE
            "imageGCHighThresholdPercent": 100,  # never: a local image can't be pulled again
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
                "imagefs.inodesFree": "1%",
            },
            "logging": {"verbosity": 1},
        }

    def proxy_configuration(self) -> dict[str, object]:
        """The KubeProxyConfiguration; no limit of conntrack is set, it would be the machine's."""
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {
                "kubeconfig": str(self.settings.configuration / "kube-proxy.conf")
            },
            "hostnameOverride": self.name,
            "clusterCIDR": self.settings.networks.pods_cidr,
            "detectLocalMode": "ClusterCIDR",
            "oomScoreAdj": 0,
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }

    def import_images(self, tars: list[Path]) -> None:
        """Import image tars that the node does not have."""
        containerd.import_images(self.folder / "containerd", self.run, tars)

    def kill(self, supervisor: Supervisor) -> None:
        """End it as a loss of power would: daemons, pods and mounts; its disk stays."""
        for program in reversed(PROGRAMS):
            supervisor.stop(f"{program}-{self.name}")
        cgroups.kill(self.cgroup)
        host.unmount_under(self.folder)
        shutil.rmtree(self.run, ignore_errors=True)

    def forget(self, supervisor: Supervisor) -> None:
        """Remove its pods and state; the images stay, since an import of a big one takes minutes.

        The node must be down. containerd runs for a moment: only it knows what belongs to images.
        """
        runtime = self.processes()[0]
        try:
            self.prepare()
            supervisor.start(runtime)
            containerd.wait_for(self.run, supervisor.log(runtime.name))
            containerd.remove_containers(self.run)
        except ClusterError as error:
            host.say(f"{self.name}: its images go too, containerd did not clean up: {error}")
            self.kill(supervisor)
            shutil.rmtree(self.folder / "containerd", ignore_errors=True)
        self.kill(supervisor)
        for name in ("kubelet", "logs"):
            shutil.rmtree(self.folder / name, ignore_errors=True)


def existing(settings: Settings) -> list[Node]:
    """The nodes that were started since the last `reset`, by number."""
    kubelets = settings.nodes.glob("n[0-9]*/kubelet")
    numbers = sorted(int(folder.parent.name[1:]) for folder in kubelets)
    return [Node(settings, number) for number in numbers]
