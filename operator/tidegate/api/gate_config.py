"""What a gate is told: one document for each deployment, written by the operator, watched by it.

The operator and every gate share these models. A gate refuses a document that does not validate
and goes on with the last one that did; so a field is only ever added, with a default.
"""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field

from tidegate.api.wire import DNSLabel, Name, Percent, Seconds, Text, Wire

CONFIG_KEY = "gate.json"
"""The key of the ConfigMap that holds the document."""

PoolName = Literal["unified", "prefill", "decode"]
Tokens = Annotated[int, Field(ge=1, le=2**40)]
Count = Annotated[int, Field(ge=0, le=2**31)]
Share = Annotated[float, Field(gt=0, le=1)]


def _network(value: str) -> str:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError("must be a network, such as 10.0.0.0/8 or fd00::/8") from None
    return value


Network = Annotated[Text, AfterValidator(_network)]
"""Addresses in CIDR notation."""
Instant = Annotated[AwareDatetime, Field(strict=False)]
"""A point in time with its zone; JSON has it as text, which a strict field would not take."""


class KVGroup(Wire):
    """Layers that take KV blocks together: `ceil(min(tokens, cap) / block) + extra` a request."""

    block_tokens: Annotated[int, Field(ge=1, le=2**24)]
    """Tokens in a block of the group, over all GPUs that share the context."""
    cap_tokens: Annotated[int, Field(ge=0, le=2**40)] | None = None
    """Tokens beyond which a request takes no further block: a window; none without a bound."""
    extra_blocks: Count = 0
    """Blocks that any request takes beside those of its tokens."""


class SliceConfig(Wire):
    """The pods of one pool, revision and class of node: the pods of one Deployment."""

    name: DNSLabel
    """The Deployment's name: its pods are `<name>-<hash>-<suffix>`."""
    pool: PoolName
    """The pool that they belong to."""
    revision: DNSLabel
    """The revision that they are of."""
    node_class: Text
    """The class of node that they run on."""
    kv_blocks: Annotated[int, Field(ge=1, le=2**40)]
    """Blocks that a request may take, the engine's null block left out: the plan's number."""
    kv_tokens: Tokens
    """Tokens that those hold at maxModelLen: for what is shown."""
    groups: Annotated[list[KVGroup], Field(min_length=1, max_length=64)]
    """How many blocks a request takes."""
    max_num_seqs: Annotated[int, Field(ge=1, le=2**20)]
    """Requests that the engine runs at once."""
    prefill_tokens_per_second: Annotated[float, Field(gt=0)] | None = None
    """The plan's estimate of the speed of prefill, until the gate has measured it."""


class Serves(Wire):
    """What the engines of a revision answer to."""

    models: Annotated[list[Name], Field(min_length=1, max_length=32)]
    """Names that they know the model by."""
    max_model_len: Tokens
    """Prompt and output of one request at most."""


class RevisionConfig(Wire):
    """A revision and its share of the traffic."""

    name: DNSLabel
    """The revision."""
    weight: Annotated[int, Field(ge=0, le=1000)]
    """Its share of the requests that it can answer, relative to the others' weights."""
    serves: Serves | None = None
    """What it can answer; by default all that this document names."""


class ShedShare(Wire):
    """Requests that are turned away before the queue, the lowest class first."""

    percent: Percent
    """Share of the requests, 0 to 100."""
    until: Instant | None = None
    """It lapses by itself then, whether or not the operator lives."""
    reason: Annotated[str, Field(max_length=256)] = ""
    """Why, as clients are told; the operator gives none."""
    floor: Annotated[int, Field(ge=0, le=10)] = 10
    """Classes from this one up are never shed; 10 protects none."""


class ShiftShare(Wire):
    """Requests that another deployment of the namespace serves, through its gate."""

    to: DNSLabel
    """The other deployment."""
    percent: Percent
    """Share of the requests, 0 to 100."""
    until: Instant | None = None
    """It lapses by itself then."""
    port: Annotated[int, Field(ge=1, le=65535)] = 80
    """Port of the other gate's Service."""


class Limits(Wire):
    """Bounds on one request, and on the queue."""

    body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 8 * 2**20
    """A larger body is refused."""
    header_bytes: Annotated[int, Field(ge=1024, le=2**20)] = 32 * 1024
    """Larger headers are refused."""
    json_depth: Annotated[int, Field(ge=4, le=512)] = 64
    """A deeper body is refused."""
    choices: Annotated[int, Field(ge=1, le=1024)] = 16
    """`n` and `best_of` at most."""
    prompts: Annotated[int, Field(ge=1, le=4096)] = 64
    """Prompts in one request at most."""
    logprobs: Annotated[int, Field(ge=0, le=1000)] = 20
    """`logprobs`, `top_logprobs` and `prompt_logprobs` at most."""
    max_queue: Annotated[int, Field(ge=0, le=100_000)] = 200
    """Requests that may wait in one gate."""
    queue_timeout: Seconds = 5.0
    """A request waits no longer, nor longer than its SLO leaves."""
    connections: Annotated[int, Field(ge=1, le=100_000)] = 4096
    """Client connections that one gate holds open."""
    tenant_tokens_in_flight: Tokens | None = None
    """Tokens that one tenant may have reserved in the pool; none without a limit."""


class Deadlines(Wire):
    """How long the gate waits for an engine."""

    connect: Seconds = 2.0
    """For a connection."""
    first_token: Seconds = 120.0
    """From the sending of a request to the first byte of its answer's body."""
    between_chunks: Seconds = 60.0
    """From one chunk of a stream to the next."""
    total: Seconds = 3600.0
    """For a whole answer."""
    drain: Seconds = 30.0
    """For the requests in flight when the gate is told to stop."""


class Slo(Wire):
    """What admitted requests are to have; learned from idle pods where nothing is declared."""

    time_to_first_token: Seconds | None = None
    """Time to the first token, waiting included."""
    time_per_output_token: Seconds | None = None
    """Time for each further token."""


class Tenants(Wire):
    """Who is asking."""

    require_key: bool = False
    """Refuse requests without a known key."""
    default_priority: Annotated[int, Field(ge=0, le=9)] = 5
    """The class of requests without a key; 9 is served first."""
    trusted_peers: Annotated[list[Network], Field(max_length=64)] = []
    """Networks (CIDR) whose `x-tidegate-tenant` and `x-tidegate-priority` are believed."""


class GateConfig(Wire):
    """Everything that a gate of one deployment is told."""

    schema_version: Literal["tidegate.io/gate/v1"] = "tidegate.io/gate/v1"
    """The version of this document."""
    namespace: DNSLabel
    """The deployment's namespace."""
    deployment: DNSLabel
    """The deployment."""
    generation: Count
    """The generation of the resource that this was made from."""
    models: Annotated[list[Name], Field(min_length=1, max_length=512)]
    """Names that clients call the model by: those of all revisions with weight, stable's first."""
    max_model_len: Tokens
    """Prompt and output of one request at most, where the revision with the longest serves it."""
    gate_service: DNSLabel
    """The Service of the gates: its ready endpoints are counted, since each takes 1/N of a pod."""
    services: dict[PoolName, DNSLabel]
    """The Service of each pool, whose EndpointSlices tell its pods."""
    engine_port: Annotated[int, Field(ge=1, le=65535)] = 8000
    """Where the engines listen."""
    slices: Annotated[list[SliceConfig], Field(max_length=512)] = []
    """The pods there may be, by Deployment."""
    revisions: Annotated[list[RevisionConfig], Field(max_length=16)] = []
    """Shares of the traffic; a revision that is not named gets none."""
    headroom: Share = 0.95
    """Share of a pod's blocks that the gates plan with."""
    slo: Slo = Slo()
    """What admitted requests are to have."""
    limits: Limits = Limits()
    """Bounds on requests and the queue."""
    deadlines: Deadlines = Deadlines()
    """How long engines are waited for."""
    tenants: Tenants = Tenants()
    """Who is asking."""
    shed: ShedShare | None = None
    """Turn requests away; none by default."""
    shift: ShiftShare | None = None
    """Send requests elsewhere; none by default."""
    decode_may_prefill: bool = True
    """Whether a decode pod prefills for itself where no prefill pod can."""

    @property
    def is_pair(self) -> bool:
        """Tell whether prefill and decode are pools of their own."""
        return "prefill" in self.services
