"""What an installation can be told, by the chart's values; `config` is the operator's settings."""

from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from tidegate.api.wire import DNSLabel, DNSName, LabelKey, LabelValue, QuantityText, Wire
from tidegate.core.monitoring.objectives import AVAILABILITY_PERCENT
from tidegate.shell import install_webhook
from tidegate.shell.settings import Host, OperatorSettings, Port, Webhook

CHART_OWNED = ("namespace", "podLabels", "webhook", "leaderElection")
"""Settings that the chart writes itself, because they must agree with its objects."""

Amounts = Annotated[dict[LabelKey, QuantityText], Field(max_length=16)]
Annotations = Annotated[dict[LabelKey, str], Field(max_length=64)]
Digest = Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")]
Tag = Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$")]
Repository = Annotated[str, Field(max_length=255, pattern=r"^([a-z0-9][a-z0-9._:/-]*)?$")]
Free = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class Image(Wire):
    """The one image: the operator, the gates that it makes, and `helm test`."""

    repository: Repository = ""
    """Where the image is, such as registry.example.com/team/tidegate. Required: no image is
    published; build it from operator/Dockerfile."""
    tag: Tag = ""
    """Its tag; the chart's appVersion when empty."""
    digest: Digest = ""
    """Its digest, sha256:...; it takes the place of the tag."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When nodes pull it for the operator's pods."""


class PullSecret(Wire):
    """A Secret by its name."""

    name: DNSName
    """The Secret's name, in the operator's namespace."""


class Crds(Wire):
    """The CustomResourceDefinition."""

    install: bool = True
    """Install and upgrade it with the release. It is never removed by an uninstall: the resources
    would go with it, and all engines with them."""


class Account(Wire):
    """The operator's ServiceAccount, `tidegate`."""

    annotations: Annotations = {}
    """Annotations of the account."""


class Resources(Wire):
    """What each operator pod asks for."""

    requests: Amounts = {"cpu": "100m", "memory": "128Mi"}
    """What it is given for sure. Measured: 75 MiB with no LLMDeployment, and 0.3 MiB for each; a
    twentieth of a core at rest with 200 of them."""
    limits: Amounts = {"memory": "512Mi"}
    """What it may not exceed. A limit of CPU would slow reviews down, so there is none."""


class Budget(Wire):
    """The PodDisruptionBudget."""

    enabled: bool = True
    """Have drains take one replica at a time, so that reviews go on."""


class Policy(Wire):
    """The NetworkPolicy of the operator's own pods."""

    enabled: bool = True
    """Let in reviews from anywhere (no selector tells an API server), and on the port of metrics
    only those whom config.scraper tells. Probes of the node are not affected."""


class IssuerReference(Wire):
    """An issuer of cert-manager."""

    name: DNSName
    """Its name."""
    kind: Literal["Issuer", "ClusterIssuer"] = "Issuer"
    """An Issuer is of the operator's namespace."""
    group: DNSName = "cert-manager.io"
    """The API group, for issuers that others provide."""


class CertManager(Wire):
    """Certificates by cert-manager. Without it the operator makes, rotates and registers them."""

    enabled: bool = False
    """Ask cert-manager (1.12 or newer, already installed) for the certificate, and have it keep
    caBundle. The operator is then given no right to write Secrets or webhook configurations."""
    issuer: IssuerReference | None = None
    """Who signs; by default an Issuer of the chart's own that signs itself."""


class Reviews(Wire):
    """The admission webhook."""

    enabled: bool = True
    """Review every LLMDeployment before it is stored. Without it, the operator holds at the next
    pass what a review would have refused."""
    port: Port = Webhook().port
    """Port of the pods that reviews come to."""
    timeout_seconds: Annotated[int, Field(ge=1, le=30)] = install_webhook.TIMEOUT_SECONDS
    """How long the API server waits for an answer. No answer is a refusal."""
    exempt_namespaces: Annotated[list[DNSLabel], Field(max_length=64)] = []
    """Namespaces whose resources are not reviewed, beside kube-system. The label
    `tidegate.io/admission: skip` on a namespace does the same."""
    hosts: Annotated[list[Host], Field(max_length=8)] = []
    """More names and addresses in the certificate that the operator makes."""
    cert_manager: CertManager = CertManager()
    """Certificates by cert-manager."""


class PodMonitors(Wire):
    """PodMonitors of the Prometheus operator."""

    enabled: bool = False
    """Have the Prometheus operator scrape engines, gates and the operator, at the interval
    config.prometheus.scrapeInterval, which is then in whole units (7s500ms, not 7.5s). Its
    definitions must be there."""
    labels: Annotations = {}
    """Labels that your Prometheus selects PodMonitors by, such as `release: prometheus`."""


class Rules(Wire):
    """The PrometheusRule: recording rules and alerts."""

    enabled: bool = False
    """Give the Prometheus operator the recording rules and alerts."""
    labels: Annotations = {}
    """Labels that your Prometheus selects PrometheusRules by."""


class Dashboards(Wire):
    """Grafana dashboards, a ConfigMap each."""

    enabled: bool = False
    """Make the ConfigMaps, for Grafana's sidecar to find."""
    labels: Annotations = {"grafana_dashboard": "1"}
    """Labels that the sidecar selects ConfigMaps by."""
    annotations: Annotations = {}
    """Annotations, such as the one that names the sidecar's folder."""


class Monitoring(Wire):
    """What Prometheus and Grafana are given."""

    pod_monitors: PodMonitors = PodMonitors()
    """PodMonitors of the Prometheus operator."""
    rules: Rules = Rules()
    """The PrometheusRule: recording rules and alerts."""
    dashboards: Dashboards = Dashboards()
    """Grafana dashboards, a ConfigMap each."""
    availability_objective_percent: Annotated[float, Field(gt=0, lt=100)] = AVAILABILITY_PERCENT
    """Percent of the requests that are to be served, of those that were not turned away on purpose:
    AvailabilityBurn goes by what it leaves to fail."""
    runbook_base_url: Annotated[str, Field(max_length=512, pattern=r"^(https?://[!-~]+[^/])?$")] = (
        ""
    )
    """Where your copy of docs/runbooks is served: alerts link there. Empty: they have no link, and
    say which `kubectl tidegate runbook` prints the page."""


class ChartValues(Wire):
    """Everything that can be set when Tidegate is installed."""

    image: Image = Image()
    """The one image: the operator, the gates that it makes, and `helm test`."""
    image_pull_secrets: Annotated[list[PullSecret], Field(max_length=16)] = []
    """Secrets to pull the image with, for the operator's own pods. Gates run in the namespaces of
    their deployments: give their nodes, or the accounts there, access to the registry."""
    replicas: Annotated[int, Field(ge=0, le=9)] = 2
    """Pods of the operator. All answer reviews; one leads and writes, by a Lease."""
    crds: Crds = Crds()
    """The CustomResourceDefinition."""
    service_account: Account = Account()
    """The operator's ServiceAccount, `tidegate`."""
    resources: Resources = Resources()
    """What each operator pod asks for."""
    priority_class_name: Annotated[str, Field(max_length=253)] = ""
    """PriorityClass of the pods; system-cluster-critical keeps reviews going on a full cluster."""
    pod_annotations: Annotations = {}
    """More annotations of the operator's pods."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=16)] = {}
    """Labels of the nodes that the operator runs on. It needs no GPU."""
    tolerations: Annotated[list[Free], Field(max_length=32)] = []
    """Taints that the operator's pods tolerate, as in a pod."""
    affinity: Free = {}
    """Affinity of the operator's pods, as in a pod."""
    extra_volumes: Annotated[list[Free], Field(max_length=16)] = []
    """More volumes of the operator's pods, as in a pod: a Secret with what
    config.prometheus.caFile and config.prometheus.bearerTokenFile name, say."""
    extra_volume_mounts: Annotated[list[Free], Field(max_length=16)] = []
    """Where these are mounted, as in a container."""
    spread_over: Annotated[list[LabelKey], Field(max_length=4)] = [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    """Node labels over whose values the replicas are spread, where the cluster has room."""
    pod_disruption_budget: Budget = Budget()
    """The PodDisruptionBudget."""
    network_policy: Policy = Policy()
    """The NetworkPolicy of the operator's own pods."""
    webhook: Reviews = Reviews()
    """The admission webhook."""
    monitoring: Monitoring = Monitoring()
    """What Prometheus and Grafana are given: plain files for those without the Prometheus operator
    are in the chart under files/monitoring."""
    config: OperatorSettings = OperatorSettings()
    """The operator's settings. Where they change, its pods are replaced, and no engine is.
    Helm merges objects: null takes an entry of a default away."""
