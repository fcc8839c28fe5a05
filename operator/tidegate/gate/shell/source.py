"""Where configuration and endpoints come from: a cluster or files."""

from collections.abc import Callable, Mapping
from typing import Protocol

from tidegate.api.gate_config import GateConfig
from tidegate.gate.shell.endpoints import Endpoints

Changed = Callable[[], None]
"""Is called when the endpoints may be others."""


class Source(Protocol):
    """Offers documents to a `Configuration`, and calls `Changed`."""

    def start(self) -> None:
        """Use what is at hand before anything is asked."""

    async def run(self) -> None:
        """Keep up with changes until cancelled."""

    def endpoints(self, config: GateConfig) -> Endpoints | None:
        """Return the endpoints as the configuration reads them; None while nothing is known."""

    def silences(self) -> Mapping[str, float]:
        """Return for how many seconds each watch has not heard the API server."""

    async def close(self) -> None:
        """Let go of every connection."""
