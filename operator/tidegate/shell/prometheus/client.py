"""One round of questions to Prometheus; it blocks, and so belongs into a thread."""

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import requests
from prometheus_api_client import PrometheusConnect
from urllib3.util.retry import Retry

from tidegate.api.reasons import Reason
from tidegate.core.overload import rows
from tidegate.core.overload.queries import Name, Query
from tidegate.core.overload.rows import Answer
from tidegate.core.overload.signal import Unknown
from tidegate.shell.prometheus import address
from tidegate.shell.prometheus.session import BadAnswer, BoundedSession
from tidegate.shell.settings import Prometheus

Observe = Callable[[Name, float, bool], None]
"""Told of each question: its name, the seconds that it took, and whether its answer is of use."""

Told = TypeVar("Told")


class PrometheusClient:
    """Asks queries one after the other, all within the time-out."""

    def __init__(self, url: str, settings: Prometheus, observe: Observe) -> None:
        self._settings = settings
        self._asked = f"(asked {address.shown(url)})"
        self._observe = observe
        self._session = BoundedSession(settings.ca_file)
        self._connection = PrometheusConnect(
            url=url, session=self._session, retry=Retry(0, read=False, redirect=False), headers={}
        )

    def ask(self, queries: Iterable[Query]) -> dict[Name, Answer]:
        """Return the answers; once nobody answers, the questions that are left are not asked."""
        silence = self._authorize()
        self._session.ends_at = time.monotonic() + self._settings.timeout
        answers: dict[Name, Answer] = {}
        for query in queries:
            answers[query.name] = silence or self._timed(query)
            answer = answers[query.name]
            if isinstance(answer, Unknown) and answer.reason is Reason.METRICS_UNREACHABLE:
                silence = answer
        return answers

    def _authorize(self) -> Unknown | None:
        """Read the token anew: it is replaced from time to time."""
        path = self._settings.bearer_token_file
        if path is None:
            return None
        try:
            token = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            return _unreachable(f"prometheus.bearerTokenFile cannot be read: {why}")
        self._session.headers["Authorization"] = f"Bearer {token}"
        return None

    def _timed(self, query: Query) -> Answer:
        begun = time.monotonic()
        answer = self._answer(query, self._session.ends_at - begun)
        seconds = time.monotonic() - begun
        self._observe(query.name, seconds, not isinstance(answer, Unknown))
        return answer

    def ask_ranges(
        self, queries: Iterable[str], begin: float, end: float, step_seconds: int
    ) -> list[object]:
        """Return the result of each range query, or why there is none, all within the time-out."""
        silence = self._authorize()
        self._session.ends_at = time.monotonic() + self._settings.timeout
        results: list[object] = []
        for promql in queries:
            result = silence or self._range(promql, begin, end, step_seconds)
            if isinstance(result, Unknown):
                silence = result
            results.append(result)
        return results

    def _range(self, promql: str, begin: float, end: float, step_seconds: int) -> object:
        def ask(seconds: float) -> object:
            times = (datetime.fromtimestamp(at, UTC) for at in (begin, end))
            return self._connection.custom_query_range(
                promql, *times, str(step_seconds), timeout=seconds
            )

        return self._answered(ask, self._session.ends_at - time.monotonic())

    def _answer(self, query: Query, seconds: float) -> Answer:
        def ask(left: float) -> Answer:
            return rows.parse(self._connection.custom_query(query.promql, timeout=left))

        return self._answered(ask, seconds)

    def _answered(self, ask: Callable[[float], Told], seconds: float) -> Told | Unknown:
        """Ask within some seconds; whatever goes wrong is told as why nothing is known."""
        if seconds <= 0:
            return self._late()
        try:
            return ask(seconds)
        except BadAnswer as error:
            return self.unreadable(str(error))
        except requests.Timeout:
            return self._late()
        except requests.JSONDecodeError:
            return self.unreadable("its answer is no JSON")
        except (requests.RequestException, OSError) as error:
            return _unreachable(f"Prometheus cannot be reached: {_cause(error)} {self._asked}")
        except rows.Unreadable as error:
            return self.unreadable(str(error))
        except (LookupError, TypeError, ValueError, RecursionError):  # the library's, of the shape
            return self.unreadable("its answer has no result of a query")

    def _late(self) -> Unknown:
        seconds = f"{self._settings.timeout:g} s"
        return _unreachable(f"Prometheus gave no answer within {seconds} {self._asked}")

    def unreadable(self, message: str) -> Unknown:
        """Return that an answer is none of Prometheus, and who gave it."""
        told = f"what answers as Prometheus is none: {message} {self._asked}"
        return Unknown(Reason.METRICS_UNREADABLE, told)

    def close(self) -> None:
        """Close what is left open."""
        self._session.close()


def _unreachable(message: str) -> Unknown:
    return Unknown(Reason.METRICS_UNREACHABLE, message)


def _cause(error: BaseException) -> str:
    """Return what the system said at the bottom of it; the library's own words repeat the query."""
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is not trusted; see prometheus.caFile"
    found = [each for each in _chain(error) if isinstance(each, OSError) and each.strerror]
    return str(found[-1].strerror) if found else "the connection broke"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Go through an error, what led to it, and what that wraps."""
    seen: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        each = left.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = (each.__cause__, each.__context__, getattr(each, "reason", None), *each.args)
        left.extend(found for found in inner if isinstance(found, BaseException))
