"""Who may open a connection to an engine pod: the gate, the scraper and, in a pair, its partner.

An engine answers anybody who reaches it, and its side channel hands out KV; so everything else is
shut out. Outgoing traffic is left alone: engines fetch models.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core import names

_EPHEMERAL_PORTS = (32768, 60999)
"""Where UCX listens when it moves KV over TCP: the kernel's default range of ephemeral ports."""


@dataclass(frozen=True)
class Scraper:
    """Labels of the namespaces and the pods from which metrics may be read; None leaves it open.

    Without any setting, that is a Prometheus in any namespace.
    """

    namespace_labels: Mapping[str, str] | None = None
    pod_labels: Mapping[str, str] | None = None


def ingress(deployment: str, pool: str, scraper: Scraper) -> list[dict[str, Any]]:
    """Return what a pool's pods accept."""
    rules = [
        {"from": [_gate(deployment)], "ports": [_port(names.ENGINE_PORT)]},
        {"from": [_scraper(scraper)], "ports": [_port(names.ENGINE_PORT)]},
    ]
    if pool in ("prefill", "decode"):
        first, last = _EPHEMERAL_PORTS
        ports = [_port(names.SIDE_CHANNEL_PORT), _port(first) | {"endPort": last}]
        rules.append({"from": [_pair(deployment)], "ports": ports})
    return rules


def _gate(deployment: str) -> dict[str, Any]:
    labels = {names.COMPONENT: "gate", names.LABEL_DEPLOYMENT: deployment}
    return {"podSelector": {"matchLabels": labels}}


def _scraper(scraper: Scraper) -> dict[str, Any]:
    if scraper.namespace_labels is None and scraper.pod_labels is None:
        return _peer({}, {"app.kubernetes.io/name": "prometheus"})
    return _peer(scraper.namespace_labels or {}, scraper.pod_labels or {})


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
