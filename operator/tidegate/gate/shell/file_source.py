"""Configuration and endpoints of a gate without a cluster: two files that are read again."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from tidegate.api.gate_config import GateConfig
from tidegate.errors import Invalid
from tidegate.gate.shell import endpoints_file
from tidegate.gate.shell.configuration import Configuration
from tidegate.gate.shell.endpoints import Endpoints
from tidegate.gate.shell.endpoints_file import EndpointsFile
from tidegate.gate.shell.file_watch import FileWatch
from tidegate.gate.shell.source import Changed

_LOG = logging.getLogger(__name__)


class FileSource:
    """Reads both files again every half second; of a bad one the last good content stays."""

    def __init__(
        self,
        config_path: Path,
        endpoints_path: Path,
        configuration: Configuration,
        changed: Changed,
    ) -> None:
        self._configuration = configuration
        self._changed = changed
        self._file: EndpointsFile | None = None
        self._watches = (
            FileWatch(endpoints_path, self._take_endpoints),
            FileWatch(config_path, self._take_config),
        )

    def start(self) -> None:
        """Read nothing yet: there are no copies."""

    async def run(self) -> None:
        """Read both until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())

    def endpoints(self, config: GateConfig) -> Endpoints | None:
        """Return the endpoints as the configuration reads them."""
        if self._file is None:
            return None
        try:
            return endpoints_file.endpoints(self._file, config)
        except Invalid as error:
            _LOG.error("endpoints refused, the last good ones stay", extra={"error": str(error)})
            return None

    def silences(self) -> Mapping[str, float]:
        """Return nothing: no API server is heard."""
        return {}

    async def close(self) -> None:
        """Nothing is held open."""

    async def _take_config(self, data: bytes) -> None:
        self._configuration.offer(data, "file")

    async def _take_endpoints(self, data: bytes) -> None:
        try:
            self._file = endpoints_file.read(data)
        except Invalid as error:
            _LOG.error("endpoints refused, the last good ones stay", extra={"error": str(error)})
            return
        self._changed()
