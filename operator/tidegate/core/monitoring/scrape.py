"""Who is scraped, and under which labels: the overload loop and all queries rely on them.

Said once and written twice: as a plain scrape configuration, and as PodMonitors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core import names
from tidegate.core.monitoring.promql import OPERATOR_JOB
from tidegate.core.overload.queries import ENGINES_JOB, GATES_JOB
from tidegate.core.render.network import OPERATOR_LABELS

_ENDED = "Failed|Succeeded"
_OWN = (names.LABEL_DEPLOYMENT, names.LABEL_POOL, names.LABEL_REVISION)


@dataclass(frozen=True)
class Job:
    """A set of pods that Prometheus reads.

    Attributes:
        name: The label `job`.
        port: Name of the container's port.
        pods: Labels that its pods have; a value of None takes any.
        labels: Labels of every series, each with the label of the pod that it is taken from.
        keeps_own: What a series says of itself wins: gates tell of engines' pods, the operator of
            deployments.
        tells_pod: Series carry the pod's name.
    """

    name: str
    port: str
    pods: Mapping[str, str | None]
    labels: Mapping[str, str]
    keeps_own: bool
    tells_pod: bool


JOBS = (
    Job(
        ENGINES_JOB,
        "http",
        {names.LABEL_DEPLOYMENT: None, names.LABEL_POOL: None},
        {"llmdeployment": _OWN[0], "pool": _OWN[1], "revision": _OWN[2]},
        keeps_own=False,
        tells_pod=True,
    ),
    Job(
        GATES_JOB,
        "admin",
        {names.LABEL_DEPLOYMENT: None, names.COMPONENT: names.GATE},
        {"llmdeployment": _OWN[0]},
        keeps_own=True,
        tells_pod=False,
    ),
    Job(OPERATOR_JOB, "http", OPERATOR_LABELS, {}, keeps_own=True, tells_pod=False),
)


def scrape_config(interval_seconds: int = 15) -> dict[str, Any]:
    """Return the `scrape_configs` of a Prometheus without its operator."""
    return {
        "scrape_configs": [
            {
                "job_name": job.name,
                "scrape_interval": f"{interval_seconds}s",
                "honor_labels": job.keeps_own,
                "kubernetes_sd_configs": [{"role": "pod"}],
                "relabel_configs": [*_chosen(job), *_labelled(job)],
            }
            for job in JOBS
        ]
    }


def pod_monitors() -> dict[str, dict[str, Any]]:
    """Return the spec of a PodMonitor for each job, by its name; the interval is left open."""
    return {job.name: _pod_monitor(job) for job in JOBS}


def _pod_monitor(job: Job) -> dict[str, Any]:
    exact = {label: value for label, value in job.pods.items() if value is not None}
    present = [
        {"key": label, "operator": "Exists"} for label, value in job.pods.items() if value is None
    ]
    selector: dict[str, Any] = {"matchLabels": exact} if exact else {}
    if present:
        selector["matchExpressions"] = present
    endpoint = {
        "port": job.port,
        "honorLabels": job.keeps_own,
        "relabelings": [_camel(rule) for rule in _labelled(job)],
    }
    return {
        "namespaceSelector": {"any": True},
        "selector": selector,
        "podMetricsEndpoints": [endpoint],
    }


def _chosen(job: Job) -> Sequence[dict[str, Any]]:
    """Keep the pods of a job, their one port, and none that has ended."""
    kept = [
        {
            "action": "keep",
            "source_labels": [_pod_label(label)],
            "regex": ".+" if value is None else value,
        }
        for label, value in job.pods.items()
    ]
    port = {
        "action": "keep",
        "source_labels": ["__meta_kubernetes_pod_container_port_name"],
        "regex": job.port,
    }
    ended = {
        "action": "drop",
        "source_labels": ["__meta_kubernetes_pod_phase"],
        "regex": _ENDED,
    }
    return (*kept, port, ended)


def _labelled(job: Job) -> Sequence[dict[str, Any]]:
    """Name the series; a PodMonitor's own labels that we do not want are dropped."""
    taken = {
        "namespace": "__meta_kubernetes_namespace",
        "pod" if job.tells_pod else "instance": "__meta_kubernetes_pod_name",
        **{ours: _pod_label(theirs) for ours, theirs in job.labels.items()},
    }
    dropped = ("container", "endpoint") if job.tells_pod else ("container", "endpoint", "pod")
    return (
        {"target_label": "job", "replacement": job.name},
        *({"source_labels": [source], "target_label": ours} for ours, source in taken.items()),
        {"action": "labeldrop", "regex": "|".join(dropped)},
    )


def _pod_label(label: str) -> str:
    return "__meta_kubernetes_pod_label_" + "".join(c if c.isalnum() else "_" for c in label)


def _camel(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Spell a relabelling as the PodMonitor has it."""
    spelled = {"source_labels": "sourceLabels", "target_label": "targetLabel"}
    return {spelled.get(key, key): value for key, value in rule.items()}
