"""What an end of the engine's container means: its exit code, its log, and how long it ran.

An engine that crashes ends with exit code 0, just as one that was asked to stop; only the line of
a requested stop in its log tells them apart. A container that was asked to stop in a pod that goes
on was stopped by the kubelet: by the startup probe when it never served, else by the liveness
probe.
"""

from collections.abc import Mapping
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.causes import containers
from tidegate.core.causes.containers import Engine, Termination
from tidegate.facts import failures

_SERVED = "Application startup complete"
_KILLED, _TERMINATED = 137, 143
_LAST_LINES = 3


def explain(
    pod: Mapping[str, Any], engine: Engine, end: Termination, log: str
) -> tuple[Reason, str]:
    """Return the reason of an end and what to say of it."""
    how = f"exit code {end.exit_code}, {_restarts(engine.restarts)}"
    if end.reason == "OOMKilled":
        return Reason.OUT_OF_MEMORY_KILLED, _out_of_memory(pod, how)
    diagnosis = failures.diagnose(log)
    if diagnosis is not None:
        return diagnosis.reason, f"{failures.message(diagnosis)} ({how})"
    if failures.shutdown_requested(log) or end.exit_code in (_KILLED, _TERMINATED):
        return _stopped(pod, end, log, how)
    if end.exit_code == 0:
        return (
            Reason.ENGINE_CRASHED,
            f"the engine ended by itself, without an error in its log and without having been "
            f"asked to ({how}); read the previous log",
        )
    return Reason.CRASH_LOOPING, f"the engine ended ({how}){_last_lines(log)}"


def _out_of_memory(pod: Mapping[str, Any], how: str) -> str:
    limit = ((containers.spec(pod).get("resources") or {}).get("limits") or {}).get("memory")
    bound = f"its memory limit of {limit}" if limit else "the memory of its node"
    return (
        f"the kernel killed the engine, which reached {bound} ({how}); "
        "raise resources.limits.memory of the pool"
    )


def _stopped(pod: Mapping[str, Any], end: Termination, log: str, how: str) -> tuple[Reason, str]:
    patience = containers.startup_seconds(pod)
    ran = "" if end.seconds is None else f" after {end.seconds:.0f} s"
    never_served = _SERVED not in log
    if never_served and patience and (end.seconds is None or end.seconds >= patience):
        return (
            Reason.STARTUP_TIMED_OUT,
            f"the engine was not healthy within the {patience:.0f} s that the startup probe allows "
            f"and was stopped{ran} ({how}); look in its log for what took so long",
        )
    if end.exit_code == _KILLED and not failures.shutdown_requested(log):
        return (
            Reason.LIVENESS_KILLED,
            f"the engine was killed{ran} without having been able to stop: it hung and failed its "
            f"liveness probe, or its node ran out of memory ({how}); read the previous log",
        )
    return (
        Reason.LIVENESS_KILLED,
        f"the engine did not answer /health and was stopped by its liveness probe{ran} ({how}); "
        "read the previous log",
    )


def _restarts(count: int) -> str:
    return "1 restart" if count == 1 else f"{count} restarts"


def _last_lines(log: str) -> str:
    lines = [line for line in failures.clean(log).splitlines() if line.strip()]
    if not lines:
        return "; its log is empty"
    return f"; its log ends: {' / '.join(line.strip() for line in lines[-_LAST_LINES:])}"
