"""The objects that have the API server ask the operator: a Service and two configurations."""

from typing import Any

from tidegate.api.llmdeployment import GROUP, PLURAL, VERSION
from tidegate.core.render.network import OPERATOR_LABELS
from tidegate.flow.ports import Document
from tidegate.shell.resources import WEBHOOK_CONFIGURATION

SERVICE = "tidegate-webhook"
PORT_NAME = "webhook"
SKIP_LABEL = "tidegate.io/admission"
"""On a namespace, with the value `skip`: its resources are stored without a review."""
TIMEOUT_SECONDS = 5
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_NEVER = ("kube-system",)


def objects(namespace: str) -> list[Document]:
    """Return the Service and the configurations, in the order in which they are to be applied."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _metadata(SERVICE) | {"namespace": namespace},
            "spec": {
                "selector": dict(OPERATOR_LABELS),
                "ports": [{"name": PORT_NAME, "port": 443, "targetPort": PORT_NAME}],
            },
        },
        _configuration("Mutating", namespace, "mutate", {"reinvocationPolicy": "IfNeeded"}),
        _configuration("Validating", namespace, "validate", {}),
    ]


def _configuration(kind: str, namespace: str, verb: str, more: dict[str, Any]) -> Document:
    """Return a configuration; its `caBundle` is the operator's to fill, or cert-manager's."""
    service = {"name": SERVICE, "namespace": namespace, "path": f"/{verb}", "port": 443}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": _metadata(WEBHOOK_CONFIGURATION),
        "webhooks": [
            {
                "name": f"{verb}.{GROUP}",
                "clientConfig": {"service": service},
                "rules": [
                    {
                        "apiGroups": [GROUP],
                        "apiVersions": [VERSION],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [PLURAL],  # and no subresource: status is the operator's own
                        "scope": "Namespaced",
                    }
                ],
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": list(_NEVER)},
                        {"key": SKIP_LABEL, "operator": "NotIn", "values": ["skip"]},
                    ]
                },
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "admissionReviewVersions": ["v1"],
                **more,
            }
        ],
    }


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "labels": dict(OPERATOR_LABELS)}
