"""What the parts of a gate say to each other: values, and the two faces of its core.

The wire reads a request's bytes and asks the `Reader` what they mean; it asks the `Admissions`
for a seat on a pod, relays, and reports what happened. All calls are plain and quick: nothing
here waits, and `now` is seconds of a clock that only grows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.gate.values import value_class


class Surface(StrEnum):
    """The paths that the gate serves, under their OpenAI names."""

    COMPLETIONS = "/v1/completions"
    CHAT = "/v1/chat/completions"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"
    TOKENIZE = "/tokenize"
    MODELS = "/v1/models"


class Script(StrEnum):
    """Kinds of text that differ in characters per token."""

    LATIN = "latin"
    CJK = "cjk"
    CODE = "code"


class Why(StrEnum):
    """Why a request is not served: the header `x-tidegate-reason`, and the metrics' label."""

    KV_BUDGET = "kv-budget"
    TTFT_SLO = "ttft-slo"
    TPOT_SLO = "tpot-slo"
    MAX_SEQS = "max-seqs"
    QUEUE_FULL = "queue-full"
    QUEUE_TIMEOUT = "queue-timeout"
    SHED = "shed"
    TENANT_SHARE = "tenant-share"
    NO_ENDPOINTS = "no-endpoints"
    NO_PREFILL = "no-prefill"
    NO_DECODE = "no-decode"
    TOO_LONG = "too-long"
    BAD_REQUEST = "bad-request"
    TOO_LARGE = "too-large"
    NOT_FOUND = "not-found"
    METHOD = "method-not-allowed"
    UNAUTHENTICATED = "unauthenticated"
    ENGINE_ERROR = "engine-error"
    TTFT_DEADLINE = "ttft-deadline"
    STALLED = "stalled"
    TOTAL_DEADLINE = "total-deadline"
    SHIFT_LOOP = "shift-loop"
    NO_CONFIGURATION = "no-configuration"
    DRAINING = "draining"


class Outcome(StrEnum):
    """How an admitted request's visit to its pods ended."""

    FINISHED = "finished"
    CLIENT_GONE = "client-gone"
    ENGINE_FAILED = "engine-failed"  # reset, garbage, 5xx, or `abort` by an engine that stops
    ENGINE_FULL = "engine-full"  # its own 503
    ENGINE_REFUSED = "engine-refused"  # 4xx: the client's fault
    UNREACHABLE = "unreachable"  # no connection: nothing was sent
    DEADLINE = "deadline"  # the engine's own: no first token, or no further one
    TOTAL_DEADLINE = "total-deadline"  # the answer is longer than the user lets any be
    GATE_GONE = "gate-gone"  # this gate stopped, and could wait no longer


@dataclass(slots=True)
class Head:
    """The head of a request as the wire read it; names of headers are lower case."""

    method: str
    path: str
    query: str
    headers: Sequence[tuple[bytes, bytes]]
    peer: str
    judged: object = field(default=None, repr=False, compare=False)
    """What the reader found of it; nobody else looks into it."""


@value_class
class Caller:
    """Who asks: a tenant's short name (never its key) and its class, 9 first.

    `tokens_in_flight` is the tenant's own limit, where its key names one.
    """

    tenant: str
    priority: int
    tokens_in_flight: int | None = None


@value_class
class Ask:
    """A request, read and cleaned.

    `body` is what the engine is to get, empty where the path has none. `prompt_tokens` is exact
    for token ids (`characters` is then 0) and an estimate for text; it is the sum of all `prompts`,
    and `fewest_tokens` is what the longest of them has at least (None: one, of `prompt_tokens`).
    `output_limit` is the most tokens that each of `samples` answers, those to all prompts, may
    have. `prefix` is equal for requests that begin
    alike, longest part first not needed; empty where nothing is to be gained. `headers` are those
    that go on to the engine. `shifted` says that another gate sent it: it is not shifted again.
    `messages` and `images` are what beside text makes a prompt's tokens. `serial` is
    another for each request, whatever id its client gave it. `names_model` is False where the
    request leaves it open. `least_output` is the output that an engine must have room for:
    what was asked for, or one token. `least_expected` is what each answer is sure to have: its
    client lets it end no earlier. `scores_prompt` says that the answer is to have the log
    probabilities of the prompt's own tokens.
    """

    request_id: str
    surface: Surface
    model: str
    caller: Caller
    body: bytes
    headers: Sequence[tuple[bytes, bytes]]
    prompt_tokens: int
    output_limit: int
    samples: int = 1
    prompts: int = 1
    fewest_tokens: int | None = None
    streams: bool = False
    wants_usage: bool = False
    characters: int = 0
    script: Script = Script.LATIN
    prefix: bytes = b""
    shifted: bool = False
    messages: int = 0
    images: int = 0
    serial: int = 0
    names_model: bool = True
    least_output: int = 0
    least_expected: int = 0
    scores_prompt: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that says no, in the OpenAI shape; `allow` is the method that would do (405)."""

    status: int
    why: Why
    message: str
    kind: str = "invalid_request_error"
    param: str | None = None
    retry_after_seconds: int | None = None
    allow: str | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """An engine's pod, as its EndpointSlice and the configuration tell."""

    name: str
    address: str
    port: int
    pool: PoolName
    revision: str
    slice_name: str
    terminating: bool = False


@value_class
class Usage:
    """What the engine said of an answer."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(eq=False, slots=True)
class Seat:
    """Room on a pod for one request; in a pair also on a prefill pod, of the same revision.

    Its tokens stay reserved until `Admissions.ended`, which may be called more than once.
    `admitted_at` and `asked_at` are of the monotonic clock.
    """

    ask: Ask
    pod: Pod
    prefill: Pod | None
    asked_at: float
    admitted_at: float
    book: object = field(default=None, repr=False)
    """The ledger's own entry; nobody else looks into it."""


@dataclass(frozen=True, slots=True)
class Shift:
    """The request is to be served by another deployment's gate, whose Service has this port."""

    to: str
    port: int = 80


Decided = Callable[["Seat | Shift | Refusal"], None]


@dataclass(frozen=True, slots=True)
class Scrape:
    """What a pod's own metrics said, None where it did not tell."""

    at: float
    kv_usage: float | None = None
    num_gpu_blocks: int | None = None
    running: int | None = None
    waiting: int | None = None
    preemptions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as the ledger sees it; this gate's part of it."""

    pod: Pod
    reserved_tokens: int
    capacity_tokens: int
    reserved_blocks: int
    capacity_blocks: int
    seated: int
    prefill_backlog_tokens: int
    prefill_tokens_per_second: float | None
    ejected: bool
    scrape_age_seconds: float | None
    kv_usage: float | None
    """How full its KV cache was of late, by its own metrics, 0 to 1; None where it has not told."""


@dataclass(frozen=True, slots=True)
class View:
    """The whole of the core's state that is shown."""

    pods: Sequence[PodView]
    queued: int
    queued_by_priority: Mapping[int, int]
    queued_prompt_tokens: Mapping[PoolName, int]
    """Prompt tokens of those that wait, by the pool that is to prefill them."""
    shed_percent: float
    shift_percent: float


class Ticket(Protocol):
    """A request that may still wait."""

    def leave(self, now: float) -> None:
        """The client is gone: take it out of the queue; no call of `decided` follows."""


class Reading(Protocol):
    """What is to be done with one request's body, here or in another process."""

    def of(self, body: bytes) -> Ask | Refusal:
        """Read, clean and count it."""


class Reader(Protocol):
    """Turns bytes into an `Ask`, or says what is wrong with them."""

    def head(self, head: Head) -> Refusal | None:
        """Judge a head before its body is read: path, method, key. None when it may go on."""

    def read(self, head: Head, body: bytes, request_id: str) -> Ask | Refusal:
        """Read, clean, count and class a request."""

    def reading(self, head: Head, request_id: str) -> "Reading | Ask | Refusal":
        """Return what is to be done with a request's body, or the answer where there is none."""

    def learn(self, ask: Ask, usage: Usage) -> None:
        """Correct the characters per token from what the engine counted."""

    def configure(self, config: GateConfig) -> None:
        """Take a new configuration."""


class Admissions(Protocol):
    """Decides who goes where and when; the only place that changes the ledger."""

    def ask(self, ask: Ask, now: float, wall: float, decided: Decided) -> Ticket:
        """Ask for a seat. `decided` is called once: within this call, or from a later one.

        `wall` is seconds since 1970, for the expiry of shares.
        """

    def again(self, seat: Seat, failed: Pod, outcome: Outcome, now: float) -> Seat | Refusal:
        """Give a seat after a failure before the first byte, within the retry budget.

        Elsewhere; after a lost transfer, for which nobody is blamed, on the decode pod alone. The
        old seat is ended by this call.
        """

    def sent(self, seat: Seat, now: float) -> None:
        """The request is on its way to the pod (of a pair: to the prefill pod)."""

    def prefilled(self, seat: Seat, now: float) -> None:
        """A pair's first step returned: the prefill pod's tokens are free."""

    def first_token(self, seat: Seat, now: float) -> None:
        """The first byte of the answer's body came."""

    def produced(self, seat: Seat, tokens: int, now: float) -> None:
        """`tokens` more tokens came; may be told in lumps."""

    def ended(self, seat: Seat, outcome: Outcome, usage: Usage | None, now: float) -> None:
        """The visit is over, by any way; a second call does nothing."""

    def tick(self, now: float, wall: float) -> None:
        """Time passed: queue timeouts, probation, decay. Every 20 to 100 ms."""

    def configure(self, config: GateConfig, now: float) -> None:
        """Take a new configuration; what is seated stays seated."""

    def endpoints(self, pool: PoolName, pods: Sequence[Pod], now: float) -> None:
        """The ready and terminating pods of a pool, all of them."""

    def gates(self, count: int) -> None:
        """How many gates share the pods, this one included; at least 1."""

    def observe(self, pod: str, scrape: Scrape) -> None:
        """A pod's metrics, by the pod's name."""

    def view(self, now: float, wall: float) -> View:
        """What is shown."""
