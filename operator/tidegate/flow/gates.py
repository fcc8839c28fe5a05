"""Whether clients are served: do gates answer, and by the current spec.

A gate is asked at each of its starts and at each change of its configuration, until the answer is
sure. At rest nothing is asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import names
from tidegate.core.status import GatesSeen
from tidegate.core.status import gates as gates_status
from tidegate.flow import following, pair_trials, slices
from tidegate.flow.gather import Snapshot, is_gate
from tidegate.flow.memory import HeardGate, Memory, Start
from tidegate.flow.ports import Clock, Document, Gates, ReadFailed

_SURE_SECONDS = 5.0
"""A gate watches its configuration: after this its answer is about the newest one."""
_AGAIN_SECONDS = 2.0
_LONGEST_WAIT_SECONDS = 300.0
_MOST_ASKED = 4
"""Gates asked in one pass at most: a pass waits for each."""
_DEFAULT_PORT = 80
_NEVER = float("inf")


@dataclass(frozen=True)
class Looked:
    """What the status is told of the gates, and how soon to look again; None: at any event.

    `is_following` says that none serves the current spec yet, but only since a moment ago.
    """

    seen: GatesSeen | None
    again_seconds: float | None = None
    is_following: bool = False


async def look(
    snapshot: Snapshot, spec: LLMDeploymentSpec | None, gates: Gates, clock: Clock, memory: Memory
) -> Looked:
    """Ask gates what is not known yet; without a gate there is nothing to tell."""
    seen = _counted(snapshot, spec)
    if seen is None:
        return Looked(None)
    ready = sorted(slices.ready_pods(snapshot.gate_pods), key=_name)
    heard = _remembered(snapshot, ready, clock, memory)
    await _ask(ready, heard, gates, clock)
    serving = [pod for pod in ready if following.serves(heard[_uid(pod)], snapshot)]
    seen = replace(
        seen,
        serves=bool(serving),
        refusal=next((of.told.error for of in heard.values() if of.told and of.told.error), ""),
        silence=_silence(snapshot, ready, heard),
    )
    pairs = await pair_trials.carry_out(snapshot, serving, gates, clock, memory)
    times = [of.ask_at for of in heard.values()] + [of.try_at for of in pairs.values()]
    waits = [at - clock.monotonic() for at in times if at != _NEVER]
    again_seconds = max(0.0, min(waits)) if waits else None
    in_time = following.is_in_time(heard.values(), snapshot, clock.monotonic(), _SURE_SECONDS)
    return Looked(pair_trials.told(seen, pairs), again_seconds, in_time and not serving)


def _counted(snapshot: Snapshot, spec: LLMDeploymentSpec | None) -> GatesSeen | None:
    """Return address and pods: as the spec asks for them, without one as they are there."""
    live = snapshot.gate
    status = (live or {}).get("status") or {}
    if spec is not None:
        if not spec.gate.enabled:
            return None
        desired, port = spec.gate.replicas, spec.gate.service.port
    elif live is not None:
        desired, port = int(live["spec"].get("replicas", 1)), _service_port(snapshot)
    else:
        return None
    return GatesSeen(
        address=_address(snapshot, port),
        desired=desired,
        ready=int(status.get("availableReplicas", 0)),
    )


def _address(snapshot: Snapshot, port: int) -> str:
    ref = snapshot.ref
    end = "" if port == _DEFAULT_PORT else f":{port}"
    return f"http://{ref.name}.{ref.namespace}.svc{end}"


def _service_port(snapshot: Snapshot) -> int:
    for found in snapshot.objects:
        if found["kind"] == "Service" and is_gate(found):
            return int(found["spec"]["ports"][0]["port"])
    return _DEFAULT_PORT


def _remembered(
    snapshot: Snapshot, ready: Sequence[Document], clock: Clock, memory: Memory
) -> dict[str, HeardGate]:
    """Return what is known of each ready gate; of a new version each is asked again.

    What it told before holds until then: a gate that is slow to answer once serves all the same.
    """
    before, now = memory.gates.get(snapshot.ref, {}), clock.monotonic()
    version = _version(snapshot)
    heard: dict[str, HeardGate] = {}
    for pod in ready:
        start, known = _start(pod), before.get(_uid(pod))
        if known is None or known.start != start:
            known = HeardGate(start, version, since=now, ask_at=now)
        elif known.version != version:
            known = replace(known, version=version, since=now, ask_at=now, silence="")
        heard[_uid(pod)] = known
    memory.gates[snapshot.ref] = heard
    return heard


def _version(snapshot: Snapshot) -> str:
    """Return what tells one state of the gate's configuration from all others."""
    found = snapshot.gate_config
    return f"{found['metadata']['resourceVersion']}/{snapshot.identity[1]}" if found else ""


async def _ask(
    ready: Sequence[Document], heard: dict[str, HeardGate], gates: Gates, clock: Clock
) -> None:
    asked = 0
    for pod in ready:
        of = heard[_uid(pod)]
        if clock.monotonic() < of.ask_at or asked == _MOST_ASKED:
            continue
        asked += 1
        try:
            of.told, of.silence = await gates.configuration(pod), ""
        except ReadFailed as error:
            of.silence = str(error)
        now = clock.monotonic()
        age = now - of.since
        has_told = of.told is not None and not of.told.error and not of.silence
        is_sure = has_told and age >= _SURE_SECONDS
        of.ask_at = _NEVER if is_sure else now + min(_AGAIN_SECONDS + age, _LONGEST_WAIT_SECONDS)


def _silence(snapshot: Snapshot, ready: Sequence[Document], heard: dict[str, HeardGate]) -> str:
    if not ready:
        return gates_status.why_not_ready(snapshot.gate_pods)
    for pod in ready:
        of = heard[_uid(pod)]
        if of.silence:
            return of.silence
        if of.told is not None and not following.serves(of, snapshot):
            has = f"generation {of.told.generation}" if of.told.generation else "none"
            return f"pod {_name(pod)} has {has}, the spec is generation {snapshot.identity[1]}"
    return ""


def _start(pod: Document) -> Start:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    found: Document = next((s for s in statuses if s.get("name") == names.GATE), {})
    return Start(_uid(pod), int(found.get("restartCount", 0)))


def _uid(pod: Document) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def _name(pod: Document) -> str:
    name: str = pod["metadata"]["name"]
    return name
