"""Kubernetes' Pod Security Standard `restricted`, as a check of a pod's spec.

The rules are those of the standard as of Kubernetes 1.34, for Linux pods; `restricted` includes
`baseline`. Tidegate's template meets them all, and no field of the resource can change that: this
is the second lock, on the pod as it was rendered.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal

Spec = Mapping[str, Any]
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SECCOMP = ("RuntimeDefault", "Localhost")
_APPARMOR = (None, "RuntimeDefault", "Localhost")
_SELINUX_TYPES = (
    None,
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
)
_SAFE_SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
_HANDLERS = ("livenessProbe", "readinessProbe", "startupProbe")
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def check(template: Spec) -> list[Finding]:
    """Return what a pod template (`metadata` and `spec`) breaks, as refusals."""
    return [
        refusal(Reason.POD_NOT_RESTRICTED, f"pod.{where}", told)
        for where, told in violations(template)
    ]


def violations(template: Spec) -> Iterator[tuple[str, str]]:
    """Yield each violation: where it stands in the pod, and the rule."""
    spec: Spec = template.get("spec") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    for key, value in annotations.items():
        if key.startswith(_APPARMOR_ANNOTATION) and not _is_known_apparmor(value):
            yield f"metadata.annotations['{key}']", "AppArmor may not be switched off"
    yield from _host(spec)
    yield from _volumes(spec)
    own: Spec = spec.get("securityContext") or {}
    yield from _context(own, "spec.securityContext")
    for sysctl in own.get("sysctls") or ():
        if sysctl.get("name") not in _SAFE_SYSCTLS:
            yield "spec.securityContext.sysctls", f"{sysctl.get('name')} is no safe sysctl"
    for kind in _CONTAINERS:
        for index, container in enumerate(spec.get(kind) or ()):
            yield from _container(container, own, f"spec.{kind}[{index}]")


def _host(spec: Spec) -> Iterator[tuple[str, str]]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"spec.{field}", "the host's namespaces are not for pods"


def _volumes(spec: Spec) -> Iterator[tuple[str, str]]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for kind in sorted(set(volume) - {"name"} - _VOLUMES):
            yield f"spec.volumes[{index}].{kind}", "volumes of this kind are not allowed"


def _context(context: Spec, at: str) -> Iterator[tuple[str, str]]:
    """Check what pods and containers may both say."""
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield f"{at}.windowsOptions.hostProcess", "it must not be true"
    if (context.get("appArmorProfile") or {}).get("type") not in _APPARMOR:
        yield f"{at}.appArmorProfile.type", "it must be RuntimeDefault or Localhost"
    options: Spec = context.get("seLinuxOptions") or {}
    if options.get("type") not in _SELINUX_TYPES:
        yield f"{at}.seLinuxOptions.type", "it must be a type of containers"
    for field in ("user", "role"):
        if options.get(field):
            yield f"{at}.seLinuxOptions.{field}", "it must not be set"
    if context.get("runAsUser") == 0:
        yield f"{at}.runAsUser", "it must not be 0, the superuser"
    if context.get("runAsNonRoot") is False:
        yield f"{at}.runAsNonRoot", "it must not be false"
    profile: Spec = context.get("seccompProfile") or {}
    if profile and profile.get("type") not in _SECCOMP:
        yield f"{at}.seccompProfile.type", "it must be RuntimeDefault or Localhost"


def _container(container: Spec, pod: Spec, at: str) -> Iterator[tuple[str, str]]:
    context: Spec = container.get("securityContext") or {}
    inside = f"{at}.securityContext"
    yield from _context(context, inside)
    if context.get("privileged"):
        yield f"{inside}.privileged", "it must not be true"
    if context.get("procMount") not in (None, "Default"):
        yield f"{inside}.procMount", "it must be Default"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{inside}.allowPrivilegeEscalation", "it must be false"
    if not (context.get("runAsNonRoot") or pod.get("runAsNonRoot")):
        yield f"{inside}.runAsNonRoot", "it must be true here or for the whole pod"
    if not (context.get("seccompProfile") or pod.get("seccompProfile")):
        yield f"{inside}.seccompProfile", "it must be set here or for the whole pod"
    capabilities: Spec = context.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"{inside}.capabilities.drop", "it must hold ALL"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield f"{inside}.capabilities.add", "it may hold NET_BIND_SERVICE alone"
    for index, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort"):
            yield f"{at}.ports[{index}].hostPort", "ports of the host are not for pods"
    yield from _handlers(container, at)


def _handlers(container: Spec, at: str) -> Iterator[tuple[str, str]]:
    """The kubelet must call no other host on a pod's behalf."""
    lifecycle: Spec = container.get("lifecycle") or {}
    named = {key: container.get(key) for key in _HANDLERS}
    named |= {f"lifecycle.{key}": handler for key, handler in lifecycle.items()}
    for name, handler in named.items():
        for action in ("httpGet", "tcpSocket"):
            if ((handler or {}).get(action) or {}).get("host"):
                yield f"{at}.{name}.{action}.host", "it must not be set"


def _is_known_apparmor(value: object) -> bool:
    text = str(value)
    return text in ("", "runtime/default") or text.startswith("localhost/")
