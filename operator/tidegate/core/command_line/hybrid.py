"""Whether the engine's hybrid KV cache manager is on: it decides what windows and states take."""

from collections.abc import Mapping
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

_FLAG = "disable-hybrid-kv-cache-manager"
_OF_SEVERAL = "MultiConnector"


def is_on(arguments: Mapping[str, Any], engine: Engine) -> bool:
    """Return whether it is on: as the flag says, else off where a KV connector cannot work with it.

    A connector that the engine does not bring along is taken to work with it.

    Raises:
        Refused: FLAG_UNSUPPORTED, it is asked for beside a connector that has no hybrid KV.
    """
    asked: bool | None = arguments.get(_FLAG)
    if asked:
        return False
    against = _connectors_against(arguments.get("kv-transfer-config"), engine)
    if asked is False and against:
        raise Refused(
            Reason.FLAG_UNSUPPORTED,
            f"{_FLAG} is false and the connector {against[0]} does not work with the hybrid KV "
            "cache manager; leave the flag out",
            _FLAG,
        )
    return not against


def _connectors_against(config: Any, engine: Engine) -> list[str]:
    if not isinstance(config, Mapping):
        return []
    name = config.get("kv_connector")
    if name == _OF_SEVERAL:
        extra = config.get("kv_connector_extra_config")
        several = extra.get("connectors") if isinstance(extra, Mapping) else None
        inner = several if isinstance(several, list) else []
        return [found for one in inner for found in _connectors_against(one, engine)]
    works = isinstance(name, str) and engine.kv_connectors.get(name, True)
    return [] if works or name is None else [str(name)[:80]]
