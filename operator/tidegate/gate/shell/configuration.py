"""The gate's configuration: the last document that was good, and what is wrong with a newer one."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from tidegate.api.gate_config import CONFIG_KEY, GateConfig
from tidegate.api.problems import problems
from tidegate.gate.shell.api_server import Document

_LOG = logging.getLogger(__name__)
_MOST_PROBLEMS = 5


@dataclass(frozen=True)
class Told:
    """What the gate says of its configuration, on `/configz` and in its metrics.

    `error` is why the newest document was refused, None where the newest is in use. `source` is
    where the one in use came from: `cluster`, `disk` or `file`.
    """

    generation: int | None
    is_valid: bool
    error: str | None
    source: str | None


class Configuration:
    """Takes documents and hands good ones to `use`; after a bad one the last good one stays.

    Only documents of this namespace and deployment are good: those of another gate are not.
    """

    def __init__(self, namespace: str, deployment: str, use: Callable[[GateConfig], None]) -> None:
        self.current: GateConfig | None = None
        self._whose = f"{namespace}/{deployment}"
        self._use = use
        self._error: str | None = None
        self._source: str | None = None

    def told(self) -> Told:
        """Return what is to be said of it."""
        generation = self.current.generation if self.current else None
        is_valid = self.current is not None and self._error is None
        return Told(generation, is_valid, self._error, self._source)

    def changed(self, objects: Mapping[str, Document]) -> bytes | None:
        """Take the ConfigMap as a watch holds it; return the document if it is good."""
        config_map = next(iter(objects.values()), None)
        if config_map is None:
            self._refuse("the ConfigMap does not exist")
            return None
        text = (config_map.get("data") or {}).get(CONFIG_KEY)
        if text is None:
            self._refuse(f"the ConfigMap has no key {CONFIG_KEY}")
            return None
        data = str(text).encode()
        return data if self.offer(data, "cluster") else None

    def offer(self, data: bytes, source: str) -> bool:
        """Use a document, or refuse it and go on with the last good one; tell which."""
        try:
            config = GateConfig.model_validate_json(data)
        except ValidationError as error:
            found = [str(problem) for problem in problems(error, GateConfig)]
            self._refuse("; ".join(found[:_MOST_PROBLEMS]))
            return False
        whose = f"{config.namespace}/{config.deployment}"
        if whose != self._whose:
            self._refuse(f"it is for {whose}, and this gate is for {self._whose}")
            return False
        if config != self.current and not self._take(config):
            return False
        self._error, self._source = None, source
        return True

    def _take(self, config: GateConfig) -> bool:
        """Use a document; one that makes a part of the gate fail is taken back."""
        before, self.current = self.current, config
        try:
            self._use(config)
        except Exception as error:  # the last guard: the gate goes on with what it can use
            _LOG.exception("configuration cannot be used")
            self.current = before
            if before is not None:
                self._use(before)
            self._refuse(f"it cannot be used: {type(error).__name__}: {error}")
            return False
        _LOG.info("configuration in use", extra={"generation": config.generation})
        return True

    def _refuse(self, why: str) -> None:
        if why != self._error:
            _LOG.error("configuration refused, the last good one stays", extra={"error": why})
        self._error = why
