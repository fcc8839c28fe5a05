"""What the gates' state means for the deployment: nothing, something to wait for, or to act on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core import causes

_USUAL = ("ContainerCreating", "PodInitializing")


@dataclass(frozen=True)
class GatesSeen:
    """The gates of a deployment: `desired` are asked for, `ready` answer their probes.

    `serves` says that one of them has told that it serves the current spec; `silence` why none has,
    as far as that is known. `refusal` is what one says against its configuration.
    `untried` are revisions of a pair through which no request has gone yet, and why if that is
    known; `incompatible` says of those through which none gets. `is_proven` says that a revision
    with ready pods is neither.
    """

    address: str
    desired: int
    ready: int
    serves: bool = False
    silence: str = ""
    refusal: str = ""
    untried: tuple[str, ...] = ()
    incompatible: tuple[str, ...] = ()
    is_proven: bool = True


@dataclass(frozen=True)
class Fault:
    """What is wrong; `is_final` when nothing will happen until somebody acts."""

    reason: Reason
    message: str
    is_final: bool = False


def why_not_ready(pods: Iterable[Mapping[str, Any]]) -> str:
    """Return what keeps the first gate's pod, by name, from being ready; empty where none tells."""
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        cause = causes.of_pod(pod)
        if cause is not None:
            return cause.message
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (status.get("state") or {}).get("waiting") or {}
            why = waiting.get("message") or waiting.get("reason")
            if why and waiting.get("reason") not in _USUAL:
                return f"pod {pod['metadata']['name']}: {waiting.get('reason')}: {why}"
    return ""


def fault(gates: GatesSeen | None) -> Fault | None:
    """Return what keeps the deployment from being Ready, None where nothing of the gates does."""
    if gates is None:
        return None
    if gates.refusal:
        message = f"a gate refuses its configuration and goes on with its last one: {gates.refusal}"
        return Fault(Reason.GATE_CONFIG_REFUSED, message, is_final=True)
    if not gates.ready:
        return _unavailable(f"none of {gates.desired} gates is ready", gates.silence)
    if not gates.serves:
        said = f"none of {gates.ready} ready gates tells that it serves the current spec"
        return _unavailable(said, gates.silence)
    return _of_pairs(gates)


def outage(gates: GatesSeen | None) -> Fault | None:
    """Return why no client can be served, though the engines' pods are ready."""
    if gates is None:
        return None
    if not gates.ready:
        return _unavailable(f"none of {gates.desired} gates is ready", gates.silence)
    return None if gates.is_proven else _of_pairs(gates)


def _of_pairs(gates: GatesSeen) -> Fault | None:
    if gates.incompatible:
        message = "no request gets through a pair: " + "; ".join(gates.incompatible)
        return Fault(Reason.PAIR_INCOMPATIBLE, message, is_final=True)
    if gates.untried:
        listed = ", ".join(gates.untried)
        message = f"no request has gone from prefill to decode of revision {listed} yet"
        return Fault(Reason.PAIR_UNTRIED, message)
    return None


def _unavailable(said: str, why: str) -> Fault:
    return Fault(Reason.GATE_UNAVAILABLE, f"{said}: {why}" if why else said)
