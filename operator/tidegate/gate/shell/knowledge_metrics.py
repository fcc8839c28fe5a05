"""What is shown of the configuration and of the API server, made at each read."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tidegate.gate.shell.configuration import Told


class KnowledgeMetrics(Collector):
    """How fresh and how good is what the gate goes by."""

    def __init__(
        self, told: Callable[[], Told], silences: Callable[[], Mapping[str, float]]
    ) -> None:
        self._told = told
        self._silences = silences

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Say nothing, so that registering this asks for nothing."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the families as they are now."""
        told = self._told()
        yield GaugeMetricFamily(
            "tidegate_gate_config_valid",
            "1 while the newest configuration is in use, 0 while it is refused or there is none.",
            float(told.is_valid),
        )
        generation = GaugeMetricFamily(
            "tidegate_gate_config_generation",
            "Generation of the resource that the configuration in use was made from.",
        )
        if told.generation is not None:
            generation.add_metric((), told.generation)
        yield generation
        silence = GaugeMetricFamily(
            "tidegate_gate_api_silence_seconds",
            "Since the API server was last heard: a bookmark comes every minute.",
            labels=("watch",),
        )
        for watch, seconds in self._silences().items():
            silence.add_metric((watch,), seconds)
        yield silence
