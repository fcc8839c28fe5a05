"""The wire's observer: counts what it is told into the metrics, quickly."""

from collections.abc import Callable, Sequence

from tidegate.api.gate_config import GateConfig
from tidegate.gate.exchange import Ask, Outcome, Pod, Usage, Why
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.series import Bars, Total
from tidegate.gate.wire.observer import Finished

OTHER = "other"
"""The label of a model that the configuration does not name, of a path that is not served, and in
`ended` of a class that is not the top one."""
TOP_CLASS = 9
"""The class that is served first."""
ABANDONED = "abandoned"
"""The outcome of a visit that was given up before the first byte."""
_GIVEN_UP = frozenset({Outcome.CLIENT_GONE, Outcome.TOTAL_DEADLINE})
"""By the client, or by the time that its user allows: of one that hangs nothing else is seen."""
VISITS = (*(each.value for each in Outcome if each is not Outcome.GATE_GONE), ABANDONED)
"""How visits end, as far as pods have to do with it."""
FIRST, AGAIN = "first", "again"
"""Whether the pod was the first that was asked."""
_REFUSED = "refused"
_TURNED_AWAY = (
    *(Why.KV_BUDGET, Why.TTFT_SLO, Why.TPOT_SLO, Why.MAX_SEQS, Why.QUEUE_FULL, Why.QUEUE_TIMEOUT),
    *(Why.SHED, Why.NO_ENDPOINTS, Why.NO_PREFILL, Why.NO_DECODE, Why.NO_CONFIGURATION),
    *(Why.DRAINING, Why.SHIFT_LOOP),
)
"""Why the gate refuses what it would serve if it could: what alerts count of its refusals."""


class _OfRevision:
    """The series of one model on the pods of one revision."""

    __slots__ = ("admitted", "inter_token", "ttft")

    def __init__(self, metrics: Metrics, model: str, revision: str) -> None:
        self.admitted = metrics.admitted.labels(model, revision)
        self.ttft = metrics.ttft.labels(model, revision)
        self.inter_token = metrics.inter_token.labels(model, revision)


class _OfModel:
    """The series of one model."""

    __slots__ = (
        "_metrics",
        "_name",
        "_revisions",
        "cached",
        "estimate",
        "output",
        "prompt",
        "wait",
    )

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._metrics = metrics
        self._name = model
        self._revisions: dict[str, _OfRevision] = {}
        self.prompt = metrics.tokens.labels(model, "prompt")
        self.cached = metrics.tokens.labels(model, "cached")
        self.output = metrics.tokens.labels(model, "output")
        self.estimate = metrics.estimate.labels(model)
        self.wait = metrics.queue_wait.labels(model)

    def of(self, revision: str) -> _OfRevision:
        """Return the series of a revision's pods."""
        found = self._revisions.get(revision)
        if found is None:
            found = self._revisions[revision] = _OfRevision(self._metrics, self._name, revision)
        return found

    def ttft(self, revision: str) -> Bars:
        """Return the times to first tokens; those of no single revision have an empty one."""
        return self.of(revision).ttft if revision else self._metrics.ttft.labels(self._name, "")


class Telemetry:
    """The wire's `Observer`: counts, then tells each listener of what is over."""

    def __init__(
        self, metrics: Metrics, listeners: Sequence[Callable[[Finished], None]] = ()
    ) -> None:
        self._metrics = metrics
        self._listeners = tuple(listeners)
        self._models: dict[str, _OfModel] = {}
        self._other: _OfModel | None = None
        self._ends: dict[tuple[object, ...], tuple[Total, Total, Bars]] = {}
        refusals = ((_REFUSED, why.value) for why in _TURNED_AWAY)
        self._begin_ends("", ("shifted", ""), (Outcome.GATE_GONE.value, ""), *refusals)

    def configure(self, config: GateConfig) -> None:
        """Take names; models that are no more keep what was counted, revisions do not.

        Each change of a spec is a revision, so over months their series would fill the table.
        """
        named = {entry.revision for entry in config.slices}
        named.update(entry.name for entry in config.revisions)
        self._metrics.keep_revisions({"", *named})
        for revision in named:
            self._begin_ends(revision, *((outcome.value, "") for outcome in Outcome))
            for outcome in VISITS:
                for attempt in (FIRST, AGAIN):
                    self._metrics.visits.labels(outcome, attempt, revision)
        self._other = None
        self._models = {model: _OfModel(self._metrics, model) for model in config.models}
        self._ends.clear()

    def connections(self, count: int) -> None:
        """So many client connections are open now."""
        self._metrics.connections.set(count)

    def admitted(self, ask: Ask, pod: Pod, waited_seconds: float) -> None:
        """A request got its seat on this pod after that time in the queue."""
        series = self._of(ask.model)
        series.of(pod.revision).admitted.value += 1
        series.wait.observe(waited_seconds)

    def first_token(self, ask: Ask, revision: str, seconds: float) -> None:
        """The first byte of an answer came, that long after the request was whole."""
        self._of(ask.model).ttft(revision).observe(seconds)

    def pace(self, ask: Ask, pod: Pod, tokens: int, seconds: float) -> None:
        """`tokens` more came in the `seconds` since those before."""
        if tokens > 0:
            series = self._of(ask.model).of(pod.revision)
            series.inter_token.observe(seconds / tokens, tokens)

    def prefilled(self, prefill: Pod, seconds: float) -> None:
        """A pair's first step returned."""
        self._metrics.prefill_step.labels().observe(seconds)

    def transferred(self, decode: Pod, seconds: float) -> None:
        """A pair's second step gave its first byte."""
        self._metrics.transfer_wait.labels().observe(seconds)

    def retried(self, pod: Pod, outcome: Outcome) -> None:
        """A request is sent elsewhere."""
        self._metrics.retries.labels(outcome.value).inc()

    def visited(self, pod: Pod, outcome: Outcome, *, is_first: bool, is_answered: bool) -> None:
        """A pod is done with a request."""
        is_given_up = outcome in _GIVEN_UP and not is_answered
        told = ABANDONED if is_given_up else outcome.value
        attempt = FIRST if is_first else AGAIN
        self._metrics.visits.labels(told, attempt, pod.revision).value += 1

    def finished(self, request: Finished) -> None:
        """A request is over."""
        total, ended, seconds = self._end(request)
        total.value += 1
        ended.value += 1
        seconds.observe(request.total_seconds)
        if request.usage is not None:
            self._count_tokens(self._of(request.model), request.usage, request.prompt_tokens)
        for listener in self._listeners:
            listener(request)

    def _count_tokens(self, series: _OfModel, usage: Usage, estimated: int) -> None:
        series.prompt.value += max(0, usage.prompt_tokens)
        series.cached.value += max(0, usage.cached_tokens)
        series.output.value += max(0, usage.output_tokens)
        if usage.prompt_tokens > 0 and estimated > 0:
            series.estimate.observe(estimated / usage.prompt_tokens)

    def _begin_ends(self, revision: str, *ends: tuple[str, str]) -> None:
        """Show series at 0: Prometheus sees no growth in a series that begins with a burst."""
        for outcome, reason in ends:
            for class_ in (str(TOP_CLASS), OTHER):
                self._metrics.ended.labels(class_, outcome, reason, revision)

    def _end(self, request: Finished) -> tuple[Total, Total, Bars]:
        key = (
            request.model,
            request.surface,
            request.priority,
            request.outcome,
            request.why,
            request.shifted_to,
            request.status > 0,
            request.revision,
        )
        return self._ends.get(key) or self._new_end(key, request)

    def _new_end(self, key: tuple[object, ...], request: Finished) -> tuple[Total, Total, Bars]:
        is_known = request.model in self._models
        model = request.model if is_known or not request.model else OTHER
        outcome = outcome_of(request)
        reason = request.why.value if request.why else ""
        series = (
            self._metrics.requests.labels(
                model,
                request.surface or OTHER,
                "" if request.priority is None else str(request.priority),
                outcome,
                reason,
                request.revision,
            ),
            self._metrics.ended.labels(
                str(TOP_CLASS) if request.priority == TOP_CLASS else OTHER,
                outcome,
                reason if outcome == _REFUSED else "",
                request.revision,
            ),
            self._metrics.request_seconds.labels(model, outcome),
        )
        if is_known or not request.model:  # names that clients make up must not fill the table
            self._ends[key] = series
        return series

    def _of(self, model: str) -> _OfModel:
        found = self._models.get(model)
        if found is not None:
            return found
        if self._other is None:
            self._other = _OfModel(self._metrics, OTHER)
        return self._other


def outcome_of(request: Finished) -> str:
    """Return how a request ended: an `Outcome`, or `answered` or `refused` by the gate itself."""
    if request.outcome is not None:
        return request.outcome.value
    if request.shifted_to:
        return "shifted"
    if not request.status:
        return Outcome.CLIENT_GONE.value
    return "answered" if request.why is None else _REFUSED
