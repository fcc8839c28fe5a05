"""A real Prometheus in the cluster, told who to scrape by the chart's own plain files."""

import hashlib
import json
import math
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.kube import Document, Kube, Not, Unanswered, wait_until

FILES = Path(__file__).parents[1] / "charts" / "tidegate" / "files" / "monitoring"
NAMESPACE = "monitoring"
NAME = "prometheus"
PORT = 9090
SCRAPE_SECONDS = 1
URL = f"http://{NAME}.{NAMESPACE}:{PORT}"
READY_SECONDS = 90.0
_LABELS = {"app.kubernetes.io/name": NAME}
"""Those that the NetworkPolicies of operator, engines and gates let in."""


@dataclass(frozen=True)
class Sample:
    """One series of an answer."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    """The installed Prometheus."""

    kube: Kube
    scrape_seconds: int

    @property
    def config(self) -> Document:
        """Settings with which the operator asks it."""
        return {"prometheus": {"url": URL, "scrapeInterval": f"{self.scrape_seconds}s"}}

    def query(self, promql: str) -> list[Sample]:
        """Ask it something.

        Raises:
            Unanswered: It refuses the query, or is away.
        """
        found = self._get("query", query=promql)["result"]
        return [Sample(entry["metric"], float(entry["value"][1])) for entry in found]

    def known(self, promql: str) -> list[Sample]:
        """Return the series of an answer that have a number."""
        return [sample for sample in self.query(promql) if math.isfinite(sample.value)]

    def wait_for(self, promql: str, seconds: float = 30.0) -> list[Sample]:
        """Wait until a query has an answer with a number in it, and return that."""
        return wait_until(
            f"Prometheus answers {promql}", lambda: self.known(promql) or Not("nothing"), seconds
        )

    def firing(self, namespace: str = "") -> set[str]:
        """Return the names of the alerts that fire, of one namespace or of all."""
        return {
            alert["labels"]["alertname"]
            for alert in self._get("alerts")["alerts"]
            if alert["state"] == "firing" and namespace in ("", alert["labels"].get("namespace"))
        }

    def wait_firing(self, alert: str, namespace: str, seconds: float) -> None:
        """Wait until an alert fires for a namespace."""

        def probe() -> bool | Not:
            firing = self.firing(namespace)
            return alert in firing or Not(f"firing: {sorted(firing)}")

        wait_until(f"{alert} fires for {namespace}", probe, seconds)

    def rules(self) -> list[Document]:
        """Return its rules as it holds them, each with its health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[Document]:
        """Return what it scrapes."""
        active: list[Document] = self._get("targets", state="active")["activeTargets"]
        return active

    def check_rules(self) -> str:
        """Return what its own promtool says of the rules that it runs."""
        words = ("-n", NAMESPACE, "exec", f"deployment/{NAME}", "--")
        return self.kube.kubectl(*words, "promtool", "check", "rules", "/etc/prometheus/rules.yaml")

    def stop(self) -> None:
        """Take it away as an outage would; `start` brings it back, with nothing remembered."""
        self._scale(0)

    def start(self) -> None:
        """Bring it back."""
        self._scale(1)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it serves."""
        self.kube.kubectl(
            *("-n", NAMESPACE, "rollout", "status", f"deployment/{NAME}"),
            f"--timeout={READY_SECONDS:.0f}s",
            seconds=READY_SECONDS + 10,
        )

    def remove(self) -> None:
        """Remove it."""
        self.kube.try_kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        for kind in ("clusterrolebinding", "clusterrole"):
            self.kube.try_kubectl("delete", kind, "tidegate-e2e-prometheus", "--ignore-not-found")

    def _scale(self, replicas: int) -> None:
        self.kube.kubectl("-n", NAMESPACE, "scale", f"deployment/{NAME}", f"--replicas={replicas}")

    def _get(self, path: str, **query: str) -> Any:
        place = (
            f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}:{PORT}/proxy/api/v1/{path}"
            f"?{urllib.parse.urlencode(query)}"
        )
        answer = self.kube.request("GET", place)
        if answer["status"] != "success":
            raise Unanswered(f"{path}: {answer.get('error')}")
        return answer["data"]


def install(kube: Kube, image: str, scrape_seconds: int = SCRAPE_SECONDS) -> Prometheus:
    """Install it, or bring what is installed up to the files of this checkout."""
    found = kube.try_kubectl("get", "namespace", NAMESPACE, "-o", "json").stdout
    if found and json.loads(found)["status"]["phase"] == "Terminating":
        kube.kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=80s")
    documents = manifests(image, scrape_seconds)
    kube.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))
    installed = Prometheus(kube, scrape_seconds)
    installed.wait_ready()
    return installed


def manifests(image: str, scrape_seconds: int) -> list[Document]:
    """Return its objects."""
    here = {"name": NAME, "namespace": NAMESPACE}
    role = {"name": "tidegate-e2e-prometheus"}
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
                "rules.yaml": (FILES / "rules.yaml").read_text(encoding="utf-8"),
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": here,
            "spec": {"selector": _LABELS, "ports": [{"port": PORT, "targetPort": PORT}]},
        },
        _deployment(here, image, scrape_seconds),
    ]


def configuration(scrape_seconds: int) -> Document:
    """Return prometheus.yaml: the chart's scrape configuration at another interval."""
    scrape = yaml.safe_load((FILES / "scrape-config.yaml").read_text(encoding="utf-8"))
    for entry in scrape["scrape_configs"]:
        entry["scrape_interval"] = f"{scrape_seconds}s"
        entry["scrape_timeout"] = f"{scrape_seconds}s"
    timing = {"evaluation_interval": f"{max(1, scrape_seconds)}s"}
    return {"global": timing, "rule_files": ["/etc/prometheus/rules.yaml"], **scrape}


def _deployment(here: Document, image: str, scrape_seconds: int) -> Document:
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
            "timeoutSeconds": 5,
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
    told = json.dumps(configuration(scrape_seconds)) + (FILES / "rules.yaml").read_text("utf-8")
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
