"""The control plane: etcd, API server, controller manager, scheduler and DNS on the host side."""

from pathlib import Path

from . import audit, certificates, host
from .processes import Process
from .settings import API_PORT, Settings

ETCD_CLIENT_PORT = 2379
ETCD_PEER_PORT = 2380
EVENT_HOURS = 3
DNS_TTL_SECONDS = 1
"""DNS answers may be this old: short, since tests replace pods and look again at once."""
DNS_BINDING = "tidegate-cluster:dns"
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")
"""In the order in which they start."""


def prepare(settings: Settings) -> None:
    """Write the certificates, kubeconfigs and files that the processes read."""
    certificates.make_control_plane(settings)
    for name, subject in (
        ("admin", "/O=system:masters/CN=admin"),
        ("kube-controller-manager", "/CN=system:kube-controller-manager"),
        ("kube-scheduler", "/CN=system:kube-scheduler"),
        ("kube-proxy", "/CN=system:kube-proxy"),
        ("coredns", "/CN=system:kube-dns"),
    ):
        certificates.make_kubeconfig(settings, name, subject)
    host.write_if_changed(settings.configuration / "Corefile", corefile(settings))
    host.write_if_changed(audit.policy_file(settings), audit.policy())
    audit.log(settings).parent.mkdir(parents=True, exist_ok=True)


def processes(settings: Settings) -> list[Process]:
    """The daemons, in the order of `NAMES`."""
    commands = (
        _etcd(settings),
        _api_server(settings),
        _controller_manager(settings),
        _scheduler(settings),
        ("coredns", "-conf", str(settings.configuration / "Corefile")),
    )
    return [
        Process(name, (*command, *settings.arguments(name)), settings.host_namespace)
        for name, command in zip(NAMES, commands, strict=True)
    ]


def _etcd(settings: Settings) -> tuple[str, ...]:
    client, peer = (f"http://127.0.0.1:{port}" for port in (ETCD_CLIENT_PORT, ETCD_PEER_PORT))
    return (
        "etcd",
        f"--data-dir={settings.state / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        "--unsafe-no-fsync",  # a test cluster that loses power is made anew
    )


def _api_server(settings: Settings) -> tuple[str, ...]:
    networks, folder = settings.networks, settings.certificates
    return (
        "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{ETCD_CLIENT_PORT}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={networks.host_address}",
        f"--service-cluster-ip-range={networks.services_cidr}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        # the certificate: an EC private key in PKCS8 is refused here
        f"--service-account-key-file={folder / 'service-accounts.crt'}",
        f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
        f"--kubelet-certificate-authority={folder / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={folder / 'apiserver-kubelet.crt'}",
        f"--kubelet-client-key={folder / 'apiserver-kubelet.key'}",
        f"--requestheader-client-ca-file={folder / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={folder / 'front-proxy.crt'}",
        f"--proxy-client-key-file={folder / 'front-proxy.key'}",
        "--enable-aggregator-routing",  # webhooks by Service go straight to the pod
        f"--event-ttl={EVENT_HOURS}h",
        *audit.arguments(settings),
        "--v=1",
    )


def _controller_manager(settings: Settings) -> tuple[str, ...]:
    folder = settings.certificates
    return (
        "kube-controller-manager",
        *_credentials(settings.configuration / "kube-controller-manager.conf"),
        "--use-service-account-credentials",
        "--kube-api-qps=200",  # 20 by default: it would spend 4 s on its own accounts at start
        "--kube-api-burst=400",
        f"--root-ca-file={folder / 'ca.crt'}",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--cluster-signing-cert-file={folder / 'ca.crt'}",
        f"--cluster-signing-key-file={folder / 'ca.key'}",
        f"--flex-volume-plugin-dir={settings.state / 'volume-plugins'}",
    )


def _scheduler(settings: Settings) -> tuple[str, ...]:
    return ("kube-scheduler", *_credentials(settings.configuration / "kube-scheduler.conf"))


def _credentials(kubeconfig: Path) -> tuple[str, ...]:
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        "--leader-elect=false",
        "--v=1",
    )


def corefile(settings: Settings) -> str:
    """The configuration of DNS: cluster names only, there is nothing to forward to."""
    return f""".:53 {{
  bind {settings.networks.host_address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {settings.configuration / "coredns.conf"}
    ttl {DNS_TTL_SECONDS}
  }}
  cache {DNS_TTL_SECONDS}
}}
"""


def dns_binding() -> dict[str, object]:
    """The ClusterRoleBinding that lets DNS read Services."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": DNS_BINDING},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "system:kube-dns"}],
    }
