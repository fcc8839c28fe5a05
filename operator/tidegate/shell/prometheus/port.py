"""The port `Metrics` on a real Prometheus: questions in a thread, so that nothing waits for it."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Mapping

from tidegate.api.reasons import Reason
from tidegate.core.overload import queries, reading
from tidegate.core.overload.load import Load, loads
from tidegate.core.overload.queries import Name
from tidegate.core.overload.rows import Answer
from tidegate.core.overload.signal import Signals, Unknown
from tidegate.flow.ports import Ref
from tidegate.shell.prometheus import address
from tidegate.shell.prometheus.client import Observe, PrometheusClient
from tidegate.shell.settings import Prometheus

_LOG = logging.getLogger(__name__)
_GRACE_SECONDS = 1.0
"""How long the thread may take beyond the time-out: it ends by that itself, as a rule."""

Answers = dict[Name, Answer]


class PrometheusMetrics:
    """Asks one question for each signal, for all deployments, and one round at a time."""

    def __init__(self, url: str, settings: Prometheus, observe: Observe) -> None:
        self._settings = settings
        self._asked = f"(asked {address.shown(url)})"
        self._client = PrometheusClient(url, settings, observe)
        self._is_asking = False
        self._silence: Unknown | None = None
        self._loads: Mapping[Ref, Load] = {}
        self._sampled: frozenset[tuple[Ref, str]] = frozenset()

    async def signals(self, now: float) -> Mapping[Ref, Signals]:
        """Return what is known of every deployment's pools; see the port."""
        begun = time.monotonic()
        answers = await self._ask()
        took = time.monotonic() - begun
        interval = self._settings.scrape_interval
        self._silence = _silence(answers)
        self._loads = {
            Ref(*place): load for place, load in loads(answers["load"], now, interval, took)
        }
        usage = answers["kv"]
        self._sampled = frozenset(
            (Ref(*row.place), row.pod) for row in (() if isinstance(usage, Unknown) else usage)
        )
        found = reading.signals(answers, now, interval, took)
        return {Ref(*place): known for place, known in found.items()}

    def has_sample(self, ref: Ref, pod: str) -> bool:
        """Say whether the last question told of a pod's KV cache; see the port."""
        return (ref, pod) in self._sampled

    def loads(self) -> Mapping[Ref, Load]:
        """Return what the gates carry, as the last question told it; see the port."""
        return self._loads

    def why_silent(self) -> Unknown | None:
        """Return why the last question had no useful answer at all."""
        return self._silence

    async def _ask(self) -> Answers:
        """Have a thread ask; what is late is not waited for, and not asked again meanwhile."""
        if self._is_asking:
            return _all(_late(f"the question before this one still has no answer {self._asked}"))
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answers] = loop.create_future()

        def work() -> None:
            answers = self._round()
            self._is_asking = False
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(_settle, answered, answers)

        # a daemon: a Prometheus that never ends its answer must not keep the process from ending
        self._is_asking = True
        threading.Thread(target=work, name="prometheus", daemon=True).start()
        try:
            async with asyncio.timeout(self._settings.timeout + _GRACE_SECONDS):
                return await answered
        except TimeoutError:
            seconds = f"{self._settings.timeout:g} s"
            return _all(_late(f"Prometheus gave no answer within {seconds} {self._asked}"))

    def _round(self) -> Answers:
        try:
            return self._client.ask(queries.all_of(self._settings.scrape_interval))
        except Exception:  # a bug, or a case of the libraries' that is not known yet
            _LOG.exception("asking Prometheus failed")
            return _all(Unknown(Reason.METRICS_UNREADABLE, "asking failed; see the log"))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _settle(answered: "asyncio.Future[Answers]", answers: Answers) -> None:
    if not answered.done():
        answered.set_result(answers)


def _late(message: str) -> Unknown:
    return Unknown(Reason.METRICS_UNREACHABLE, message)


def _all(unknown: Unknown) -> Answers:
    """Return the same as the answer to every question."""
    return {query.name: unknown for query in queries.all_of(queries.SHORTEST_WINDOW_SECONDS)}


def _silence(answers: Answers) -> Unknown | None:
    """Return why no question had a useful answer; None where one had."""
    unknown = [answer for answer in answers.values() if isinstance(answer, Unknown)]
    return unknown[0] if len(unknown) == len(answers) else None
