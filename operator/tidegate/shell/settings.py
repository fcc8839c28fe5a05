"""The operator's own configuration: one YAML file, read at start, every key checked."""

import os
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError

from tidegate.api import text
from tidegate.api.problems import problems
from tidegate.api.unique import unique
from tidegate.api.wire import Bytes, DNSLabel, LabelKey, LabelValue, Seconds, Text, Wire
from tidegate.core.admission import Enforcement, Rules
from tidegate.core.names import GPU_RESOURCE
from tidegate.core.nodes import NodeClassSetting
from tidegate.core.overload.decision import Tick
from tidegate.core.render.network import OPERATOR_LABELS
from tidegate.errors import Invalid, Problem
from tidegate.flow.ports import Settings

GATE_IMAGE_VARIABLE = "TIDEGATE_IMAGE"
"""The environment variable that tells the operator which image it runs itself."""
_LEAST_TTL_SECONDS = 60.0
"""Shares outlive a restart of the operator, and the hand-over to another leader."""
_TICKS_IN_TTL = 4

Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=16)]
Capability = Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Host = Annotated[str, Field(max_length=253, pattern=r"^[a-zA-Z0-9.:-]+$")]
FilePath = Annotated[str, Field(max_length=512, pattern=r"^/[!-~]+$")]

Registry = Annotated[
    str,
    Field(
        max_length=255,
        pattern=r"^(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|[a-z0-9-]+:[0-9]+)"
        r"(:[0-9]+)?(/[a-z0-9._-]+)*$",
    ),
]


def _moment(value: float) -> float:
    if not 0.1 <= value <= 600:
        raise ValueError("must be from 100ms to 10m")
    return value


Moment = Annotated[Seconds, AfterValidator(_moment)]
"""A length of time that something in a loop may take."""


class DeclaredNodeClass(Wire):
    """A class of GPU node that labels do not tell."""

    match_labels: Labels
    """Labels that the nodes of the class have."""
    product: Annotated[Text, Field(max_length=63)]
    """GPU product, as GPU feature discovery would write it."""
    memory: Bytes | None = None
    """Memory that CUDA gives the engine; the catalogue's value for the product when absent."""
    compute_capability: Capability | None = None
    """For example 9.0; the catalogue's value when absent."""
    memory_taken: Bytes = 0
    """Memory of each GPU that other processes hold: the engines are given the rest."""
    gpus_per_island: Annotated[int, Field(ge=1, le=64)] | None = None
    """GPUs of a node that reach each other fast: over NVLink, or within a NUMA node."""
    resource: Annotated[str, Field(pattern=r"^nvidia\.com/(gpu|mig-[0-9a-z.]+)(\.shared)?$")] = (
        GPU_RESOURCE
    )
    """Resource that the nodes offer and pods ask for."""


class Scraper(Wire):
    """Pods that may scrape the engines' metrics."""

    namespace_labels: Labels = {}
    """Labels of their namespace; any namespace when empty."""
    pod_labels: Labels = {"app.kubernetes.io/name": "prometheus"}
    """Labels of the pods."""


class Admission(Wire):
    """What is let in, beyond what can work."""

    enforcement: Literal["Enforce", "Warn"] = "Enforce"
    """What does not fit the nodes is refused, or let in with a warning and held."""
    registries: Annotated[list[Registry], Field(max_length=64)] = []
    """Hosts, or paths below a host, that engine images may come from; any when empty."""
    digests_only: bool = False
    """Engine images must name their digest."""


class Webhook(Wire):
    """How reviews reach the operator."""

    enabled: bool = True
    """Serve reviews. Remove the webhook configurations first: they refuse what nobody reviews."""
    port: Port = 9443
    """Port of the HTTPS server."""
    service: DNSLabel = "tidegate-webhook"
    """The Service by which the API server reaches it."""
    configuration: Annotated[str, Field(max_length=253, pattern=text.DNS_NAME.pattern)] = "tidegate"
    """Name of the two webhook configurations, whose `caBundle` the leader keeps."""
    hosts: Annotated[list[Host], Field(max_length=8)] = []
    """More names and addresses in the certificate, for configurations with a URL."""
    certificate_folder: FilePath | None = None
    """Folder with tls.crt and tls.key that others renew, such as cert-manager, who then keep
    `caBundle`, too. By default the operator makes its own."""


class Prometheus(Wire):
    """Where the slow loop gets its signals from; nothing of it can be said in a resource."""

    url: (
        Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$")] | None
    ) = None
    """Address of Prometheus, such as http://prometheus.monitoring:9090, or of what answers in its
    place. Without one the loop sheds and shifts nothing by itself; levers work all the same."""
    scrape_interval: Moment = 15.0
    """How often it scrapes engines and gates: older samples than three of these are not used."""
    timeout: Moment = 5.0
    """How long it may take to answer the questions of one tick, all together."""
    ca_file: FilePath | None = None
    """File with the certificates that it is trusted by, for https; by default the public ones."""
    bearer_token_file: FilePath | None = None
    """File with a token that it is asked with, read anew each time."""
    evidence_interval: Moment = 30.0
    """A canary is compared with its baseline in stretches of this length, never less than four
    scrapes. Error rates are known for 30 s; less is for trials with steps of a minute."""
    tick: Moment = 5.0
    """How often the loop looks. Shares lapse at the gates when several ticks fail to come."""

    def for_tick(self) -> Tick:
        """Return the part that the loop's decisions need."""
        return Tick(
            interval_seconds=self.tick,
            scrape_interval_seconds=self.scrape_interval,
            ttl_seconds=max(_LEAST_TTL_SECONDS, _TICKS_IN_TTL * (self.tick + self.timeout)),
        )


class OperatorSettings(Wire):
    """Everything that the operator can be told."""

    node_classes: Annotated[list[DeclaredNodeClass], Field(max_length=64)] = []
    """Classes of GPU node that labels do not tell."""
    scraper: Scraper = Scraper()
    """Who may scrape the engines' metrics."""
    watch_namespaces: Annotated[list[DNSLabel], Field(max_length=64), unique()] = []
    """The only namespaces whose LLMDeployments are served; all of them when empty. What GPUs pods
    of other namespaces hold is then unknown: what has no room waits for its node."""
    class_grace: Seconds = 60.0
    """How long a class of node may be away before its pods are planned elsewhere."""
    resync: Seconds = 30.0
    """Every deployment is looked at again after this, whatever events came."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 8
    """Deployments that are worked on at once."""
    http_port: Port = 8080
    """Port of /metrics, /healthz and /readyz."""
    namespace: DNSLabel = "tidegate-system"
    """The operator's own namespace, where its Lease is; engines let its pods read their metrics."""
    pod_labels: Labels = dict(OPERATOR_LABELS)
    """Labels of the operator's own pods; engines let no other pods of its namespace in."""
    budget_drift_percent: Annotated[float, Field(gt=0, le=100)] = 5.0
    """BudgetDrift is True where engines have more or less KV than was planned by over this."""
    gate_image: Annotated[str, Field(max_length=512, pattern=text.IMAGE.pattern)] | None = None
    """Image of the gates; by default the operator's own, as its manifest tells it."""
    prometheus: Prometheus = Prometheus()
    """Where the slow loop gets its signals from."""
    admission: Admission = Admission()
    """What admission refuses."""
    webhook: Webhook = Webhook()
    """How reviews reach the operator."""
    leader_election: bool = True
    """Off only where a single process is certain, such as a test."""

    def for_pass(self) -> Settings:
        """Return the part that one pass needs."""
        return Settings(
            node_classes=tuple(
                NodeClassSetting(
                    match_labels=entry.match_labels,
                    product=entry.product,
                    memory_bytes=entry.memory,
                    compute_capability=_capability(entry.compute_capability),
                    taken_bytes=entry.memory_taken,
                    gpus_per_island=entry.gpus_per_island,
                    resource=entry.resource,
                )
                for entry in self.node_classes
            ),
            scraper_namespace_labels=self.scraper.namespace_labels,
            scraper_pod_labels=self.scraper.pod_labels,
            class_grace_seconds=self.class_grace,
            operator_namespace=self.namespace,
            operator_pod_labels=self.pod_labels,
            drift_limit_percent=self.budget_drift_percent,
            admission=self.admission_rules(),
            gate_image=self.gate_image or os.environ.get(GATE_IMAGE_VARIABLE) or "tidegate",
            tick=self.prometheus.for_tick(),
        )

    def admission_rules(self) -> Rules:
        """Return the part that a review needs."""
        return Rules(
            enforcement=Enforcement(self.admission.enforcement),
            registries=tuple(self.admission.registries),
            digests_only=self.admission.digests_only,
        )


def load(path: Path | None) -> OperatorSettings:
    """Read the settings; without a file every default holds.

    Raises:
        Invalid: The file cannot be read, or a key is wrong; all problems are named.
    """
    if path is None:
        return OperatorSettings()
    try:
        document = yaml.safe_load(path.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid([Problem(str(path), f"cannot be read: {error}")]) from error
    try:
        return OperatorSettings.model_validate(document)
    except ValidationError as error:
        raise Invalid(problems(error, OperatorSettings, (str(path),))) from error


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)
