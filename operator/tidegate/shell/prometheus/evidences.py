"""The port `Evidences` on a real Prometheus: what gates and engines told of two revisions."""

import asyncio

from tidegate.core.analysis.evidence import Metric
from tidegate.core.canary import answers, questions
from tidegate.core.canary.questions import Question, Window
from tidegate.core.overload.signal import Unknown
from tidegate.flow.ports import ReadFailed, Ref, Sides
from tidegate.shell.prometheus.client import PrometheusClient
from tidegate.shell.settings import Prometheus


class PrometheusEvidences:
    """Asks range queries for each family; one deployment after the other, in a thread."""

    metrics: frozenset[Metric] = questions.METRICS

    def __init__(self, url: str, settings: Prometheus) -> None:
        self._settings = settings
        self._client = PrometheusClient(url, settings, lambda name, seconds, is_good: None)
        self._turn = asyncio.Lock()

    async def of(self, ref: Ref, canary: str, baseline: str, since: float, now: float) -> Sides:
        """Return the evidence on both sides; see the port."""
        least = questions.least_seconds(
            self._settings.evidence_interval, self._settings.scrape_interval
        )
        found = [
            await self._within(window, ref, canary, baseline)
            for window in questions.windows(since, now, least)
        ]
        return Sides(
            tuple(one for sides in found for one in sides.canary),
            tuple(one for sides in found for one in sides.baseline),
        )

    async def _within(self, window: Window, ref: Ref, canary: str, baseline: str) -> Sides:
        asked = questions.of(ref.namespace, ref.name, (canary, baseline), window.seconds)
        async with self._turn:
            told = await asyncio.to_thread(self._ask, asked, window)
        try:
            read = {family: answers.parse(result) for family, result in told.items()}
            return Sides(
                answers.evidence(read, window, canary), answers.evidence(read, window, baseline)
            )
        except answers.Unreadable as error:
            raise ReadFailed(self._client.unreadable(str(error)).message) from error

    def _ask(self, asked: tuple[Question, ...], window: Window) -> dict[questions.Family, object]:
        told: dict[questions.Family, object] = {}
        for question, result in zip(
            asked,
            self._client.ask_ranges(
                [question.promql for question in asked],
                window.first_end,
                window.last_end,
                window.seconds,
            ),
            strict=True,
        ):
            if isinstance(result, Unknown):
                raise ReadFailed(result.message)
            told[question.family] = result
        return told

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
