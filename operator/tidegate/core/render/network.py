"""Who may connect to a pod: to an engine the gate, metrics' readers and, in a pair, its partner.

To a gate come all clients; to its admin port only those who read metrics, and the operator.

An engine answers anybody who reaches it, and its side channel hands out KV; so everything else is
shut out. Outgoing traffic is left alone: engines fetch models.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core import names

_EPHEMERAL_PORTS = (32768, 60999)
"""Where UCX listens when it moves KV over TCP: the kernel's default range of ephemeral ports."""


OPERATOR_LABELS: Mapping[str, str] = {
    "app.kubernetes.io/name": "tidegate",
    "app.kubernetes.io/component": "operator",
}
"""Labels of the operator's own pods, unless its settings say otherwise."""


@dataclass(frozen=True)
class Readers:
    """Who may read an engine's or a gate's metrics: the scraper, and the operator itself.

    Labels of the scraper's namespaces and pods; None leaves it open, and without both it is a
    Prometheus in any namespace. The operator is told by its namespace's name and its pods' labels.
    """

    scraper_namespace_labels: Mapping[str, str] | None = None
    scraper_pod_labels: Mapping[str, str] | None = None
    operator_namespace: str = "tidegate-system"
    operator_pod_labels: Mapping[str, str] | None = None


def ingress(deployment: str, pool: str, readers: Readers) -> list[dict[str, Any]]:
    """Return what a pool's pods accept."""
    rules = [
        {"from": [_gate(deployment)], "ports": [_port(names.ENGINE_PORT)]},
        {"from": [_scraper(readers)], "ports": [_port(names.ENGINE_PORT)]},
        {"from": [_operator(readers)], "ports": [_port(names.ENGINE_PORT)]},
    ]
    if pool in ("prefill", "decode"):
        first, last = _EPHEMERAL_PORTS
        ports = [_port(names.SIDE_CHANNEL_PORT), _port(first) | {"endPort": last}]
        rules.append({"from": [_pair(deployment)], "ports": ports})
    return rules


def gate_ingress(readers: Readers) -> list[dict[str, Any]]:
    """Return what a gate's pods accept: clients wherever they are, readers on the admin port."""
    admin = [_port(names.GATE_ADMIN_PORT)]
    return [
        {"ports": [_port(names.GATE_PORT)]},
        {"from": [_scraper(readers)], "ports": admin},
        {"from": [_operator(readers)], "ports": admin},
    ]


def _gate(deployment: str) -> dict[str, Any]:
    return {"podSelector": {"matchLabels": names.gate_labels(deployment)}}


def _scraper(readers: Readers) -> dict[str, Any]:
    namespace, pods = readers.scraper_namespace_labels, readers.scraper_pod_labels
    if namespace is None and pods is None:
        return _peer({}, {"app.kubernetes.io/name": "prometheus"})
    return _peer(namespace or {}, pods or {})


def _operator(readers: Readers) -> dict[str, Any]:
    namespace = {"kubernetes.io/metadata.name": readers.operator_namespace}
    return _peer(namespace, readers.operator_pod_labels or OPERATOR_LABELS)


def _peer(namespace_labels: Mapping[str, str], pod_labels: Mapping[str, str]) -> dict[str, Any]:
    peer: dict[str, Any] = {"namespaceSelector": _selector(namespace_labels)}
    if pod_labels:
        peer["podSelector"] = _selector(pod_labels)
    return peer


def _selector(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"matchLabels": dict(labels)} if labels else {}


def _pair(deployment: str) -> dict[str, Any]:
    """Both sides, both ways: decode asks prefill for KV, and UCX connects back."""
    pools = {"key": names.LABEL_POOL, "operator": "In", "values": ["prefill", "decode"]}
    selector = {"matchLabels": {names.LABEL_DEPLOYMENT: deployment}, "matchExpressions": [pools]}
    return {"podSelector": selector}


def _port(number: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": number}
