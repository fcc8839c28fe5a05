"""A real Prometheus in the cluster, told who to scrape by the chart's own plain files.

`python -m e2e.prometheus` installs it in the local cluster and prints the operator's settings for
it: `scripts/demo` does.
"""

import json
import math
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from e2e import prometheus_image, prometheus_objects
from e2e.cluster import Cluster
from e2e.kube import Document, Kube, Not, Unanswered, wait_until
from e2e.prometheus_objects import CLUSTER_ROLE, NAME, NAMESPACE, PORT

SCRAPE_SECONDS = 1
URL = f"http://{NAME}.{NAMESPACE}:{PORT}"
READY_SECONDS = 90.0


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
            self.kube.try_kubectl("delete", kind, CLUSTER_ROLE, "--ignore-not-found")

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


def install(
    kube: Kube,
    image: str,
    scrape_seconds: int = SCRAPE_SECONDS,
    alerts_after_seconds: int | None = None,
) -> Prometheus:
    """Install it, or bring what is installed up to the files of this checkout.

    With `alerts_after_seconds` alerts fire and end after that, whatever their rules say.
    """
    found = kube.try_kubectl("get", "namespace", NAMESPACE, "-o", "json").stdout
    if found and json.loads(found)["status"]["phase"] == "Terminating":
        kube.kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=80s")
    documents = prometheus_objects.manifests(image, scrape_seconds, alerts_after_seconds)
    kube.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))
    installed = Prometheus(kube, scrape_seconds)
    installed.wait_ready()
    return installed


def main() -> None:
    """Install it in the local cluster, and print the settings with which the operator asks it."""
    with Kube(Cluster().kubeconfig) as kube:
        installed = install(kube, prometheus_image.REFERENCE)
        print(yaml.safe_dump(installed.config), end="")


if __name__ == "__main__":
    main()
