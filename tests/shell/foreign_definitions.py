"""Definitions of others' kinds that the chart can render objects of.

They have the fields of cert-manager 1.12 and of the Prometheus operator 0.70 that the chart could
use, by name and type, and no defaults, bounds or webhooks: the API server then refuses a misspelt
field or a wrong type, and says nothing of what cert-manager or Prometheus would make of the rest.
"""

import json
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": TEXT}
LABELS: Schema = {"type": "object", "additionalProperties": TEXT}


def fields(required: str = "", **properties: Schema) -> Schema:
    """Return an object with these fields; `required` names those that must be there."""
    schema: Schema = {"type": "object", "properties": properties}
    return schema | ({"required": required.split()} if required else {})


def items(of: Schema) -> Schema:
    """Return a list."""
    return {"type": "array", "items": of}


ISSUER = fields(
    selfSigned=fields(crlDistributionPoints=TEXTS),
    ca=fields("secretName", secretName=TEXT),
)
CERTIFICATE = fields(
    "secretName issuerRef",
    secretName=TEXT,
    dnsNames=TEXTS,
    ipAddresses=TEXTS,
    duration=TEXT,
    renewBefore=TEXT,
    usages=TEXTS,
    issuerRef=fields("name", name=TEXT, kind=TEXT, group=TEXT),
    privateKey=fields(
        algorithm={**TEXT, "enum": ["RSA", "ECDSA", "Ed25519"]},
        encoding=TEXT,
        size=NUMBER,
        rotationPolicy={**TEXT, "enum": ["Never", "Always"]},
    ),
)
SELECTOR = fields(
    matchLabels=LABELS,
    matchExpressions=items(fields("key operator", key=TEXT, operator=TEXT, values=TEXTS)),
)
RELABELING = fields(
    action={**TEXT, "enum": ["replace", "keep", "drop", "labelmap", "labeldrop", "labelkeep"]},
    sourceLabels=TEXTS,
    separator=TEXT,
    targetLabel=TEXT,
    regex=TEXT,
    replacement=TEXT,
    modulus=NUMBER,
)
POD_MONITOR = fields(
    "selector",
    jobLabel=TEXT,
    podTargetLabels=TEXTS,
    selector=SELECTOR,
    namespaceSelector=fields(any=FLAG, matchNames=TEXTS),
    podMetricsEndpoints=items(
        fields(
            port=TEXT,
            path=TEXT,
            scheme=TEXT,
            interval={**TEXT, "pattern": r"^(0|(([0-9]+)(ms|s|m|h))+)$"},
            scrapeTimeout=TEXT,
            honorLabels=FLAG,
            honorTimestamps=FLAG,
            relabelings=items(RELABELING),
            metricRelabelings=items(RELABELING),
        )
    ),
)
PROMETHEUS_RULE = fields(
    groups=items(
        fields(
            "name",
            name=TEXT,
            interval=TEXT,
            rules=items(
                fields(
                    "expr",
                    record=TEXT,
                    alert=TEXT,
                    expr={"x-kubernetes-int-or-string": True},
                    **{"for": TEXT, "keep_firing_for": TEXT},
                    labels=LABELS,
                    annotations=LABELS,
                )
            ),
        )
    )
)
KINDS = (
    ("cert-manager.io", "v1", "Issuer", "issuers", ISSUER),
    ("cert-manager.io", "v1", "Certificate", "certificates", CERTIFICATE),
    ("monitoring.coreos.com", "v1", "PodMonitor", "podmonitors", POD_MONITOR),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", PROMETHEUS_RULE),
)
NAMES = tuple(f"crd/{plural}.{group}" for group, _, _, plural, _ in KINDS)


def manifest() -> str:
    """Return all of them, as kubectl applies them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [_made(*k) for k in KINDS]})


def _made(group: str, version: str, kind: str, plural: str, spec: Schema) -> Schema:
    known = {"apiVersion": TEXT, "kind": TEXT, "metadata": {"type": "object"}, "spec": spec}
    schema = {"type": "object", "properties": known, "required": ["spec"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
