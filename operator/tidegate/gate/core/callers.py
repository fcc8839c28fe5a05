"""Who asks, and in which class: from a key, or from a peer that is trusted to say so.

Without a key everybody is the one tenant `anonymous`. An address is no tenant: behind a proxy all
clients have the same one, and elsewhere a client may have as many as it likes.
"""

import ipaddress
import re
from collections.abc import Mapping

from tidegate.api.gate_config import Tenants
from tidegate.gate.core import faults, headers
from tidegate.gate.core.keys import Keys
from tidegate.gate.exchange import Caller

ANONYMOUS = "anonymous"

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_TENANT = re.compile(rb"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_BEARER = b"bearer "


class Callers:
    """Tells a request's caller from its headers and its peer's address."""

    def __init__(self, keys: Keys, tenants: Tenants) -> None:
        self._keys = keys
        self._requires_key = tenants.require_key
        self._default_priority = tenants.default_priority
        self._nobody = Caller(ANONYMOUS, tenants.default_priority)
        self._trusted: list[_Network] = [
            ipaddress.ip_network(network, strict=False) for network in tenants.trusted_peers
        ]

    def of(self, told: Mapping[bytes, bytes], peer: str) -> Caller:
        """Return who asks; raises `Fault` for a key that is needed and not known."""
        caller = self._by_key(told.get(headers.AUTHORIZATION))
        says_more = headers.TENANT in told or headers.PRIORITY in told
        if not says_more:
            return self._require(caller)
        is_trusted = self._trusts(peer)
        if caller is None and is_trusted and headers.TENANT in told:
            caller = Caller(_tenant(told[headers.TENANT]), self._default_priority)
        caller = self._require(caller)
        if headers.PRIORITY not in told:
            return caller
        priority = _priority(told[headers.PRIORITY])
        if not is_trusted:
            priority = min(priority, caller.priority)  # lower its own, never raise it
        return Caller(caller.tenant, priority, caller.tokens_in_flight)

    def _by_key(self, authorization: bytes | None) -> Caller | None:
        if authorization is None or authorization[:7].lower() != _BEARER:
            return None
        return self._keys.find(authorization[7:].strip(), self._default_priority)

    def _require(self, caller: Caller | None) -> Caller:
        if caller is None and self._requires_key:
            raise faults.unauthenticated(
                "A known API key is needed: send the header `Authorization: Bearer <key>`."
            )
        return caller or self._nobody

    def _trusts(self, peer: str) -> bool:
        if not self._trusted:
            return False
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        plain = getattr(address, "ipv4_mapped", None) or address
        return any(plain in network for network in self._trusted)


def _tenant(value: bytes) -> str:
    if not _TENANT.fullmatch(value):
        raise faults.bad_request(
            "x-tidegate-tenant must be a name of at most 63 lower case letters, digits and `-`."
        )
    return value.decode()


def _priority(value: bytes) -> int:
    if len(value) != 1 or not value.isdigit():
        raise faults.bad_request("x-tidegate-priority must be a digit, 0 to 9.")
    return int(value)
