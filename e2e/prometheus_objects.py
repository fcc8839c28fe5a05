"""The objects of the Prometheus under test, made from the chart's own plain files."""

import hashlib
import json
from pathlib import Path

import yaml

from e2e.kube import Document

FILES = Path(__file__).parents[1] / "charts" / "tidegate" / "files" / "monitoring"
NAMESPACE = "monitoring"
NAME = "prometheus"
PORT = 9090
EVALUATION_SECONDS = 5
CLUSTER_ROLE = "tidegate-e2e-prometheus"
_LABELS = {"app.kubernetes.io/name": NAME}
"""Those that the NetworkPolicies of operator, engines and gates let in."""


def manifests(
    image: str, scrape_seconds: int, alerts_after_seconds: int | None = None
) -> list[Document]:
    """Return its objects."""
    told = rules(alerts_after_seconds)
    here = {"name": NAME, "namespace": NAMESPACE}
    role = {"name": CLUSTER_ROLE}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    reads = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    rbac = "rbac.authorization.k8s.io"
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": restricted},
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": role,
            "rules": [reads],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", **role},
            "subjects": [account],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": here,
            "data": {
                "prometheus.yaml": yaml.safe_dump(configuration(scrape_seconds)),
                "rules.yaml": told,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": here,
            "spec": {"selector": _LABELS, "ports": [{"port": PORT, "targetPort": PORT}]},
        },
        _deployment(here, image, scrape_seconds, told),
    ]


def rules(alerts_after_seconds: int | None = None) -> str:
    """Return the chart's rules; told so, with alerts that fire and end after that time."""
    text = (FILES / "rules.yaml").read_text(encoding="utf-8")
    if alerts_after_seconds is None:
        return text
    document = yaml.safe_load(text)
    hurried = dict.fromkeys(("for", "keep_firing_for"), f"{alerts_after_seconds}s")
    for group in document["groups"]:
        group["rules"] = [rule | (hurried if "alert" in rule else {}) for rule in group["rules"]]
    return yaml.safe_dump(document, sort_keys=False)


def configuration(scrape_seconds: int) -> Document:
    """Return prometheus.yaml: the chart's scrape configuration at another interval."""
    scrape = yaml.safe_load((FILES / "scrape-config.yaml").read_text(encoding="utf-8"))
    for entry in scrape["scrape_configs"]:
        entry["scrape_interval"] = f"{scrape_seconds}s"
        entry["scrape_timeout"] = f"{scrape_seconds}s"
    timing = {"evaluation_interval": f"{max(EVALUATION_SECONDS, scrape_seconds)}s"}
    return {"global": timing, "rule_files": ["/etc/prometheus/rules.yaml"], **scrape}


def _deployment(here: Document, image: str, scrape_seconds: int, rules_text: str) -> Document:
    container = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "--config.file=/etc/prometheus/prometheus.yaml",
            "--storage.tsdb.path=/data",
            "--storage.tsdb.retention.time=6h",
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "readinessProbe": {
            "httpGet": {"path": "/-/ready", "port": PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
            "failureThreshold": 20,  # a busy machine is no outage
        },
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/prometheus"},
            {"name": "data", "mountPath": "/data"},
        ],
    }
    pod = {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 2,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "data", "emptyDir": {}},
        ],
    }
    # a changed interval or rule makes a new pod
    told = json.dumps(configuration(scrape_seconds)) + rules_text
    annotations = {"tidegate-e2e/config": hashlib.sha256(told.encode()).hexdigest()[:16]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": here,
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _LABELS},
            "template": {
                "metadata": {"labels": _LABELS, "annotations": annotations},
                "spec": pod,
            },
        },
    }
