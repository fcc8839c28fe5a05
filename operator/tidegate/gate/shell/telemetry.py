"""The wire's observer: counts what it is told into the metrics, quickly."""

from collections.abc import Callable, Sequence

from prometheus_client import Counter

from tidegate.api.gate_config import GateConfig
from tidegate.gate.exchange import Ask, Outcome, Pod
from tidegate.gate.shell.histograms import Bars, Histogram
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.wire.observer import Finished

OTHER = "other"
"""The label of a model that the configuration does not name, and of a path that is not served."""


class Telemetry:
    """The wire's `Observer`: counts, then tells each listener of what is over."""

    def __init__(
        self, metrics: Metrics, listeners: Sequence[Callable[[Finished], None]] = ()
    ) -> None:
        self._metrics = metrics
        self._listeners = tuple(listeners)
        self._models: frozenset[str] = frozenset()
        self._counters: dict[tuple[object, ...], Counter] = {}

    def configure(self, config: GateConfig) -> None:
        """Take the models' names: what is bound to older ones is bound anew."""
        self._models = frozenset(config.models)
        self._counters.clear()

    def connections(self, count: int) -> None:
        """So many client connections are open now."""
        self._metrics.connections.set(count)

    def admitted(self, ask: Ask, waited_seconds: float) -> None:
        """A request got its seat after that time in the queue."""
        self._count(self._metrics.admitted, ask.model).inc()
        self._of(self._metrics.queue_wait, ask.model).observe(waited_seconds)

    def first_token(self, ask: Ask, pod: Pod, seconds: float) -> None:
        """The first byte of an answer came, that long after the request was whole."""
        self._of(self._metrics.ttft, ask.model).observe(seconds)

    def pace(self, ask: Ask, tokens: int, seconds: float) -> None:
        """`tokens` more came in the `seconds` since those before."""
        if tokens > 0:
            self._of(self._metrics.inter_token, ask.model).observe(seconds / tokens, tokens)

    def prefilled(self, prefill: Pod, seconds: float) -> None:
        """A pair's first step returned."""
        self._metrics.prefill_step.labels().observe(seconds)

    def transferred(self, decode: Pod, seconds: float) -> None:
        """A pair's second step gave its first byte."""
        self._metrics.transfer_wait.labels().observe(seconds)

    def retried(self, pod: Pod, outcome: Outcome) -> None:
        """A request is sent elsewhere."""
        self._metrics.retries.labels(outcome.value).inc()

    def finished(self, request: Finished) -> None:
        """A request is over."""
        outcome = outcome_of(request)
        self._requests(request, outcome).inc()
        model = self._model(request.model)
        self._metrics.request_seconds.labels(model, outcome).observe(request.total_seconds)
        usage = request.usage
        if usage is not None:
            self._count(self._metrics.tokens, request.model, "prompt").inc(
                max(0, usage.prompt_tokens)
            )
            self._count(self._metrics.tokens, request.model, "cached").inc(
                max(0, usage.cached_tokens)
            )
            self._count(self._metrics.tokens, request.model, "output").inc(
                max(0, usage.output_tokens)
            )
            if usage.prompt_tokens > 0 and request.prompt_tokens > 0:
                ratio = request.prompt_tokens / usage.prompt_tokens
                self._of(self._metrics.estimate, request.model).observe(ratio)
        for listener in self._listeners:
            listener(request)

    def _requests(self, request: Finished, outcome: str) -> Counter:
        key = (request.model, request.surface, request.priority, outcome, request.why)
        counter = self._counters.get(key)
        if counter is None:
            priority = "" if request.priority is None else str(request.priority)
            why = "" if request.why is None else request.why.value
            surface = request.surface or OTHER
            model = self._model(request.model)
            counter = self._metrics.requests.labels(model, surface, priority, outcome, why)
            self._keep(key, request.model, counter)
        return counter

    def _count(self, family: Counter, model: str, *labels: str) -> Counter:
        key = (family, model, *labels)
        counter = self._counters.get(key)
        if counter is None:
            counter = family.labels(self._model(model), *labels)
            self._keep(key, model, counter)
        return counter

    def _keep(self, key: tuple[object, ...], model: str, counter: Counter) -> None:
        """Find it faster next time; but a client's choice of names must not fill the table."""
        if model in self._models:
            self._counters[key] = counter

    def _of(self, histogram: Histogram, model: str) -> Bars:
        return histogram.labels(model if model in self._models else OTHER)

    def _model(self, model: str) -> str:
        return model if model in self._models else (OTHER if model else "")


def outcome_of(request: Finished) -> str:
    """Return how a request ended: an `Outcome`, or `answered` or `refused` by the gate itself."""
    if request.shifted_to:
        return "shifted"
    if request.outcome is not None:
        return request.outcome.value
    if not request.status:
        return Outcome.CLIENT_GONE.value
    return "answered" if request.why is None else "refused"
