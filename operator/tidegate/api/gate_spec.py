"""`spec.gate`: the data plane in front of the engines, and what it lets a client ask for."""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from tidegate.api import text
from tidegate.api.model_spec import KeyRef
from tidegate.api.pool_spec import PodTemplate, PoolResources, Toleration
from tidegate.api.rules import rule, rules, takes_time
from tidegate.api.unique import unique
from tidegate.api.wire import Bytes, LabelKey, LabelValue, QuantityText, Seconds, Wire

BODY_BYTES = (1024, 2**30)
HEADER_BYTES = (1024, 2**20)
_DEADLINES = ("connect", "first_token", "between_chunks", "total", "drain")

_KEYS_NEEDED = "requireKey needs keysSecretRef, the keys that are known; set it"
_NO_DEADLINE = "every deadline must be more than 0s"
_BODY = "body must be from 1Ki to 1Gi"
_HEADERS = "headers must be from 1Ki to 1Mi"
_NO_NETWORK = "must be a network such as 10.0.0.0/8"

_Amounts = Annotated[
    dict[Literal["cpu", "memory", "ephemeral-storage"], QuantityText], Field(max_length=3)
]


def _network(value: str) -> str:
    address, slash, _ = value.partition("/")
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        address = ""
    if not (address and slash):
        raise ValueError(_NO_NETWORK)
    return value


Network = Annotated[
    str,
    Field(
        min_length=3,
        max_length=49,
        json_schema_extra=rules(rule("isCIDR(self)", _NO_NETWORK)),
    ),
    AfterValidator(_network),
]


class GateService(Wire):
    """The Service that clients connect to; it has the deployment's own name."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """Kubernetes' own field."""
    port: Annotated[int, Field(ge=1, le=65535)] = 80
    """Port that clients connect to."""
    annotations: Annotated[
        dict[LabelKey, Annotated[str, Field(max_length=4096, pattern=text.PROSE.pattern)]],
        Field(max_length=32),
    ] = {}
    """Annotations, such as those that a cloud's load balancer reads; those of Tidegate are refused.
    """


class GateResources(PoolResources):
    """CPU and memory of a gate's pod."""

    requests: _Amounts = {"cpu": "100m", "memory": "128Mi"}
    """What is reserved for the pod."""
    limits: _Amounts = {"memory": "512Mi"}
    """What the pod may use at most; without one for CPU, since a throttled gate delays all."""


def _bytes_within(field: str, least: str, most: str) -> str:
    """Return the expression that a size, where it is well-formed, is within bounds."""
    amount = f"quantity(string(self.{field}))"
    return (
        f"!has(self.{field}) || !isQuantity(string(self.{field})) || "
        f"({amount}.compareTo(quantity('{least}')) >= 0 && "
        f"{amount}.compareTo(quantity('{most}')) <= 0)"
    )


class GateLimits(Wire):
    """Bounds on one request; what is above them is refused with the number."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(_bytes_within("body", "1Ki", "1Gi"), _BODY),
            rule(_bytes_within("headers", "1Ki", "1Mi"), _HEADERS),
        )
    )

    body: Bytes = 8 * 2**20
    """Size of a body at most."""
    headers: Bytes = 32 * 2**10
    """Size of all headers at most."""
    choices: Annotated[int, Field(ge=1, le=1024)] = 16
    """`n` and `best_of` at most."""
    prompts: Annotated[int, Field(ge=1, le=4096)] = 64
    """Prompts in one request at most."""
    logprobs: Annotated[int, Field(ge=0, le=1000)] = 20
    """`logprobs`, `top_logprobs` and `prompt_logprobs` at most."""
    connections: Annotated[int, Field(ge=1, le=100_000)] = 4096
    """Client connections that one gate holds open."""

    @model_validator(mode="after")
    def _within_bounds(self) -> "GateLimits":
        if not BODY_BYTES[0] <= self.body <= BODY_BYTES[1]:
            raise ValueError(_BODY)
        if not HEADER_BYTES[0] <= self.headers <= HEADER_BYTES[1]:
            raise ValueError(_HEADERS)
        return self


class GateDeadlines(Wire):
    """How long the gate waits for an engine before it gives the request up."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                " && ".join(
                    takes_time(name)
                    for name in ("connect", "firstToken", "betweenChunks", "total", "drain")
                ),
                _NO_DEADLINE,
            )
        )
    )

    connect: Seconds = 2.0
    """For a connection."""
    first_token: Seconds = 120.0
    """From the sending of a request to the first byte of its answer's body."""
    between_chunks: Seconds = 60.0
    """From one chunk of a stream to the next."""
    total: Seconds = 3600.0
    """For a whole answer."""
    drain: Seconds = 30.0
    """For the requests in flight when a gate's pod is told to stop."""

    @model_validator(mode="after")
    def _take_time(self) -> "GateDeadlines":
        if any(getattr(self, name) == 0 for name in _DEADLINES):
            raise ValueError(_NO_DEADLINE)
        return self


class GateSpec(Wire):
    """The gate: it admits a request when the KV cache and the objectives leave room for it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.requireKey) || !self.requireKey || has(self.keysSecretRef)", _KEYS_NEEDED
            )
        )
    )

    enabled: bool = True
    """Off, nothing stands before the engines: clients find them by the pools' own Services."""
    replicas: Annotated[int, Field(ge=1, le=100)] = 2
    """Gates; each admits its share of what the engines' pods hold."""
    max_queue: Annotated[int, Field(ge=0, le=100_000)] = 200
    """Requests that may wait in one gate; 0 refuses what cannot be served at once."""
    queue_timeout: Seconds = 5.0
    """A request waits no longer, nor longer than its objective leaves."""
    service: GateService = GateService()
    """Where clients connect."""
    limits: GateLimits = GateLimits()
    """Bounds on one request."""
    deadlines: GateDeadlines = GateDeadlines()
    """How long engines are waited for."""
    headroom: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Share of a pod's KV blocks that the gates plan with."""
    keys_secret_ref: KeyRef | None = None
    """Secret key with the clients' keys, their tenants and classes."""
    require_key: bool = False
    """Refuse requests without a known key."""
    default_priority: Annotated[int, Field(ge=0, le=9)] = 5
    """The class of requests without a key; 9 is served first."""
    trusted_peers: Annotated[
        list[Network],
        Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}),
        unique(),
    ] = []
    """Networks whose headers `x-tidegate-tenant` and `x-tidegate-priority` are believed."""
    tenant_tokens_in_flight: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Tokens that one tenant may have in flight; no limit when absent."""
    resources: GateResources = GateResources()
    """CPU and memory of each gate."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Labels that a gate's node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = []
    """Taints that the gates accept."""
    pod_template: PodTemplate = PodTemplate()
    """What is added to the gates' pods."""

    @model_validator(mode="after")
    def _keys_are_known(self) -> "GateSpec":
        if self.require_key and self.keys_secret_ref is None:
            raise ValueError(_KEYS_NEEDED)
        return self
