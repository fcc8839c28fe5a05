"""The objects that install the operator: its permissions come from the table in `resources`."""

import json
from typing import Any

from tidegate.core.render.network import OPERATOR_LABELS
from tidegate.flow.ports import Document
from tidegate.shell import install_webhook
from tidegate.shell.resources import CERTIFICATE_RULES, LEASE_RULES, NAMED_RULES, RULES
from tidegate.shell.settings import GATE_IMAGE_VARIABLE, OperatorSettings

NAME = "tidegate"
_LABELS = dict(OPERATOR_LABELS)
_CONFIG_PATH = "/etc/tidegate/settings.yaml"
_LEAVING_SECONDS = 5


def manifests(image: str, namespace: str, replicas: int) -> list[Document]:
    """Return every object, in the order in which they are to be applied."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        },
        _object("v1", "ServiceAccount", namespace),
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            None,
            rules=_rules(RULES) + _named_rules(NAMED_RULES),
        ),
        _binding("ClusterRoleBinding", "ClusterRole", None, namespace),
        _object(
            "rbac.authorization.k8s.io/v1",
            "Role",
            namespace,
            rules=_rules(LEASE_RULES) + _named_rules(CERTIFICATE_RULES),
        ),
        _binding("RoleBinding", "Role", namespace, namespace),
        _object(
            "v1",
            "ConfigMap",
            namespace,
            data={"settings.yaml": f"namespace: {json.dumps(namespace)}\n"},
        ),
        _object("apps/v1", "Deployment", namespace, spec=_deployment(image, replicas)),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            namespace,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": _LABELS}},
        ),
        *install_webhook.objects(namespace),
    ]


def _object(api_version: str, kind: str, namespace: str | None, **rest: Any) -> Document:
    metadata: dict[str, Any] = {"name": NAME, "labels": dict(_LABELS)}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _binding(kind: str, role: str, namespace: str | None, account_namespace: str) -> Document:
    return _object(
        "rbac.authorization.k8s.io/v1",
        kind,
        namespace,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": NAME},
        subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": account_namespace}],
    )


def _rules(table: tuple[tuple[str, str, tuple[str, ...]], ...]) -> list[dict[str, Any]]:
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
        for group, resource, verbs in table
    ]


def _named_rules(
    table: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...],
) -> list[dict[str, Any]]:
    rules = _rules(tuple((group, resource, verbs) for group, resource, verbs, _ in table))
    return [
        rule | ({"resourceNames": list(names)} if names else {})
        for rule, (*_, names) in zip(rules, table, strict=True)
    ]


def _deployment(image: str, replicas: int) -> dict[str, Any]:
    settings = OperatorSettings()
    port = settings.http_port
    return {
        "replicas": replicas,
        "selector": {"matchLabels": dict(_LABELS)},
        "template": {
            "metadata": {
                "labels": dict(_LABELS),
                "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(port)},
            },
            "spec": {
                "serviceAccountName": NAME,
                "enableServiceLinks": False,
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [_container(image, port, settings.webhook.port)],
                "volumes": [{"name": "settings", "configMap": {"name": NAME}}],
            },
        },
    }


def _container(image: str, port: int, webhook_port: int) -> dict[str, Any]:
    return {
        "name": "operator",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["run", "--config", _CONFIG_PATH],
        "env": [{"name": GATE_IMAGE_VARIABLE, "value": image}],
        "ports": [
            {"name": "http", "containerPort": port},
            {"name": install_webhook.PORT_NAME, "containerPort": webhook_port},
        ],
        # while API servers learn that this replica leaves, it goes on answering them
        "lifecycle": {"preStop": {"sleep": {"seconds": _LEAVING_SECONDS}}},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "http"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", "port": "http"},
            "periodSeconds": 3,
        },
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/tidegate", "readOnly": True}],
    }
