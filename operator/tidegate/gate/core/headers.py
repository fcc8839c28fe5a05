"""Which headers of a client the gate heeds, and which go on.

An engine gets what is on a list and nothing else: engines and routers heed headers of their own
(`x-vllm-priority`, `x-data-parallel-rank`, `x-prefiller-host-port`), and each release may know a
new one. A client's key never leaves the gate, but for another gate.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.gate.core import faults
from tidegate.gate.exchange import Caller, Head

Header = tuple[bytes, bytes]

SHIFTED = b"x-tidegate-shifted"
SESSION = b"x-session-id"
TENANT = b"x-tidegate-tenant"
PRIORITY = b"x-tidegate-priority"
AUTHORIZATION = b"authorization"
REQUEST_ID = b"x-request-id"

_PASSED = frozenset({b"accept", b"user-agent", b"traceparent", b"tracestate", b"baggage", SESSION})
_HEEDED = frozenset(
    {SHIFTED, SESSION, TENANT, PRIORITY, AUTHORIZATION, REQUEST_ID, b"content-encoding"}
)
_KNOWN = _PASSED | _HEEDED
_TO_A_GATE = _PASSED | {AUTHORIZATION}
_JSON = (b"content-type", b"application/json")
_SANE_ID = re.compile(rb"[!-~]{1,128}")


@dataclass(slots=True)
class Heeded:
    """A request's headers, sorted: what the gate acts on by name, what goes on as it came."""

    told: dict[bytes, bytes] = field(default_factory=dict)
    passed: list[Header] = field(default_factory=list)


def heed(headers: Iterable[Header]) -> Heeded:
    """Sort headers; raises `Fault` for one that the gate acts on and that came twice."""
    heeded = Heeded()
    told = heeded.told
    for header in headers:
        name = header[0]
        if name not in _KNOWN:
            continue
        if name in _HEEDED:
            if name in told:
                spelled = name.decode()
                raise faults.bad_request(f"The header {spelled} came twice; send it once.")
            told[name] = header[1]
        if name in _PASSED:
            heeded.passed.append(header)
    return heeded


def for_engine(heeded: Heeded, request_id: str) -> Sequence[Header]:
    """Return the headers of the request to an engine; host and length are the wire's."""
    return (_JSON, (REQUEST_ID, request_id.encode()), *heeded.passed)


def for_gate(
    head: Head, request_id: str, deployment: str, caller: Caller | None = None
) -> Sequence[Header]:
    """Return the headers of a request that another deployment's gate is to serve.

    `deployment` is this one's `namespace/name`: a gate that reads its own name there refuses.
    `caller` is who asks as this gate found; what the client said of itself does not go on, since
    the other gate may trust this one.
    """
    path = [value for name, value in head.headers if name == SHIFTED]
    told = [
        _JSON,
        (REQUEST_ID, request_id.encode()),
        (SHIFTED, b", ".join((*path, deployment.encode()))),
    ]
    if caller is not None:
        told.append((TENANT, caller.tenant.encode()))
        told.append((PRIORITY, b"%d" % caller.priority))
    return (*told, *(header for header in head.headers if header[0] in _TO_A_GATE))


def request_id(head: Head, make: Callable[[], str]) -> str:
    """Return the client's own id where it is one word of printable ASCII, else one that is made."""
    for name, value in head.headers:
        if name == REQUEST_ID and _SANE_ID.fullmatch(value):
            return value.decode()
    return make()


def shifted_by(heeded: Heeded) -> list[str]:
    """Return the deployments whose gates sent the request on."""
    told = heeded.told.get(SHIFTED, b"").decode("latin-1")
    return [name.strip() for name in told.split(",") if name.strip()]
