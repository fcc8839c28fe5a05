"""What a gate's process is told by its command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate.gate.shell.api_server import Account
from tidegate.gate.shell.request_log import Which
from tidegate.gate.wire.pods import Address


@dataclass(frozen=True)
class ByFiles:
    """A gate without a cluster: the files that tell it what the API server would."""

    config: Path
    endpoints: Path


@dataclass(frozen=True)
class ByCluster:
    """A gate in a cluster: its account, and the folder of its copies."""

    account: Account
    state: Path


@dataclass(frozen=True)
class Settings:
    """What a gate's process is told.

    Attributes:
        namespace: the deployment's namespace.
        deployment: the deployment that this is a gate of.
        source: where configuration and endpoints come from.
        host: the address to listen on; every one of both families when None.
        port: where clients connect.
        admin_port: where metrics and health are.
        keys_file: whose key is whose; None where there are no keys.
        linger_seconds: from the signal to stop to the closing of the port, so that who still sends
            requests learns that this gate is leaving.
        request_log: which requests get a line.
        peers: addresses of other deployments' gates; those of the cluster's DNS for all others.
    """

    namespace: str
    deployment: str
    source: ByFiles | ByCluster
    host: str | None
    port: int
    admin_port: int
    keys_file: Path | None
    linger_seconds: float
    request_log: Which
    peers: Mapping[str, Address]
