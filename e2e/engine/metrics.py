"""Reads an engine's /metrics by name and labels.

A series that is not there is `None` and not zero: vLLM shows some of its series only after their
first event, and a misspelt name must not pass for a quiet counter.
"""

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class Metrics:
    """What one scrape returned."""

    families: tuple[Metric, ...]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sum over the series of this name that have these labels; None if none has.

        Args:
            name: the series' full name, as `vllm:prompt_tokens_by_source_total`.
            labels: labels that a series must have; it may have more.
        """
        values = [
            sample.value
            for family in self.families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(values) if values else None

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of the first series of this name: an info metric holds its facts so."""
        for family in self.families:
            for sample in family.samples:
                if sample.name == name:
                    return dict(sample.labels)
        return None


def parse(text: str) -> Metrics:
    """Read the text format of Prometheus."""
    return Metrics(tuple(text_string_to_metric_families(text)))


def scrape(url: str) -> Metrics:
    """Read the metrics of the engine at a base URL, as `http://127.0.0.1:8000`.

    Raises:
        OSError: it does not answer within `TIMEOUT_SECONDS`.
    """
    with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT_SECONDS) as response:
        return parse(response.read().decode())
