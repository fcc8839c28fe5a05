"""From EndpointSlices to pods: who is ready, who is going, and how many gates there are."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.gate_config import GateConfig, PoolName, SliceConfig
from tidegate.gate.exchange import Pod
from tidegate.gate.shell.api_server import Document

SERVICE_LABEL = "kubernetes.io/service-name"
_DIRECT = {"IPv4", "IPv6"}


@dataclass(frozen=True)
class Endpoints:
    """The pods of each pool that serve or are going, and the gates that share them.

    `unknown` are ready pods of no slice that the configuration names: nothing is known of their
    KV cache, so they get no requests until the configuration follows.
    """

    pods: Mapping[PoolName, tuple[Pod, ...]]
    gates: int
    unknown: tuple[str, ...] = ()


def read(slices: Iterable[Document], config: GateConfig) -> Endpoints:
    """Read EndpointSlices; malformed parts of them are passed over."""
    by_service: dict[str, list[Document]] = {}
    for item in sorted(slices, key=_name):
        labels = _mapping(_mapping(item.get("metadata")).get("labels"))
        by_service.setdefault(str(labels.get(SERVICE_LABEL)), []).append(item)
    known = {entry.name: entry for entry in config.slices}
    pods: dict[PoolName, tuple[Pod, ...]] = {}
    unknown: list[str] = []
    for pool, service in config.services.items():
        found: dict[str, Pod] = {}
        for endpoint in _endpoints(by_service.get(service, ())):
            slice_config = known.get(_slice_name(endpoint.name))
            if slice_config is None or slice_config.pool != pool:
                unknown += [endpoint.name] if endpoint.is_ready else []
            elif endpoint.name not in found or found[endpoint.name].terminating:
                found[endpoint.name] = endpoint.pod(slice_config, config.engine_port)
        pods[pool] = tuple(found.values())
    gates = {e.name for e in _endpoints(by_service.get(config.gate_service, ())) if e.is_ready}
    return Endpoints(pods, max(1, len(gates)), tuple(sorted(set(unknown))))


def services(config: GateConfig) -> tuple[str, ...]:
    """Return the Services whose EndpointSlices are to be watched."""
    return tuple(sorted({*config.services.values(), config.gate_service}))


def without_the_rest(item: Document) -> Document:
    """Cut an EndpointSlice down to what is read of it, for the copy on disk."""
    metadata = _mapping(item.get("metadata"))
    labels = _mapping(metadata.get("labels"))
    kept = [
        {key: endpoint[key] for key in ("addresses", "conditions", "targetRef") if key in endpoint}
        for endpoint in item.get("endpoints") or ()
        if isinstance(endpoint, dict)
    ]
    return {
        "metadata": {
            "name": metadata.get("name"),
            "labels": {SERVICE_LABEL: labels.get(SERVICE_LABEL)},
        },
        "addressType": item.get("addressType"),
        "endpoints": kept,
    }


@dataclass(frozen=True)
class _Endpoint:
    name: str
    address: str
    is_ready: bool

    def pod(self, entry: SliceConfig, port: int) -> Pod:
        return Pod(
            name=self.name,
            address=self.address,
            port=port,
            pool=entry.pool,
            revision=entry.revision,
            slice_name=entry.name,
            terminating=not self.is_ready,
        )


def _endpoints(slices: Iterable[Document]) -> Iterator[_Endpoint]:
    """Yield what is ready or terminating; what is neither does not serve (yet)."""
    for item in slices:
        if item.get("addressType") not in _DIRECT:
            continue
        for entry in map(_mapping, item.get("endpoints") or ()):
            name = _mapping(entry.get("targetRef")).get("name")
            conditions = _mapping(entry.get("conditions"))
            is_going = conditions.get("terminating") is True
            # the API says of an absent `ready`: take it for true
            is_ready = conditions.get("ready") is not False and not is_going
            match entry.get("addresses"):
                case [str(address), *_] if isinstance(name, str) and (is_ready or is_going):
                    yield _Endpoint(name, address, is_ready)


def _slice_name(pod: str) -> str:
    """Return the Deployment of a pod `<deployment>-<hash>-<suffix>`."""
    return pod.rsplit("-", 2)[0]


def _name(item: Document) -> str:
    return str(_mapping(item.get("metadata")).get("name"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
