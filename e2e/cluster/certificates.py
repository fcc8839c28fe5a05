"""Keys, certificates and kubeconfigs, made once by openssl and kept over `reset`."""

import json
from pathlib import Path

from . import host
from .settings import API_PORT, Settings

DAYS = 3650
AUTHORITY = "ca"
FRONT_PROXY_AUTHORITY = "front-proxy-ca"
OPENSSL_CONFIGURATION = "[req]\ndistinguished_name=dn\n[dn]\n"
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


def make_control_plane(settings: Settings) -> None:
    """Make the authorities and every certificate that the control plane needs."""
    networks = settings.networks
    addresses = (networks.host_address, "127.0.0.1", f"{networks.services}.1")
    names = [*(f"IP:{address}" for address in addresses), *(f"DNS:{name}" for name in SERVER_NAMES)]
    make_authority(settings, AUTHORITY)
    make_authority(settings, FRONT_PROXY_AUTHORITY)
    make_authority(settings, "service-accounts")  # only its key pair is used, to sign tokens
    make(settings, "front-proxy", "/CN=front-proxy", authority=FRONT_PROXY_AUTHORITY)
    make(settings, "apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    make(settings, "apiserver", "/CN=kube-apiserver", names)


def make_authority(settings: Settings, name: str) -> None:
    """Make a self-signed certificate that may sign others."""
    _request(
        settings,
        name,
        f"/CN={settings.name}-{name}",
        ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,digitalSignature,keyCertSign"],
    )


def make(
    settings: Settings,
    name: str,
    subject: str,
    alternative_names: list[str] | None = None,
    authority: str = AUTHORITY,
) -> None:
    """Make a certificate for a server, a client or both."""
    extensions = [
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        "extendedKeyUsage=serverAuth,clientAuth",
    ]
    if alternative_names:
        extensions.append("subjectAltName=" + ",".join(alternative_names))
    signer = settings.certificates / authority
    _request(settings, name, subject, extensions, "-CA", f"{signer}.crt", "-CAkey", f"{signer}.key")


def _request(
    settings: Settings, name: str, subject: str, extensions: list[str], *signer: str
) -> None:
    folder = settings.certificates
    certificate = folder / f"{name}.crt"
    if certificate.exists():
        return
    host.write_if_changed(folder / "openssl.cnf", OPENSSL_CONFIGURATION)
    folder.chmod(0o700)
    new = folder / f"{name}.new"  # renamed when it is complete: a killed run leaves no half
    host.run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", str(DAYS), "-config", folder / "openssl.cnf", "-subj", subject),
        *(word for extension in extensions for word in ("-addext", extension)),
        *("-keyout", folder / f"{name}.key", "-out", new),
        *signer,
    )
    new.replace(certificate)


def make_kubeconfig(settings: Settings, name: str, subject: str) -> Path:
    """Make a client certificate and the kubeconfig that uses it."""
    make(settings, name, subject)
    path = settings.configuration / f"{name}.conf"
    folder = settings.certificates
    return host.write_if_changed(
        path, kubeconfig(settings.name, name, settings.networks.host_address, folder)
    )


def kubeconfig(cluster: str, user: str, address: str, folder: Path) -> str:
    """The text of a kubeconfig, as JSON, which is YAML too."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": cluster,
            "clusters": [
                {
                    "name": cluster,
                    "cluster": {
                        "server": f"https://{address}:{API_PORT}",
                        "certificate-authority": str(folder / f"{AUTHORITY}.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate": str(folder / f"{user}.crt"),
                        "client-key": str(folder / f"{user}.key"),
                    },
                }
            ],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        },
        indent=1,
    )
