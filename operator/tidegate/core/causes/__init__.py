"""Why a pod does not serve: a reason, the pod's name, what happened with its numbers, and the fix.

Pure: `needs_log` says whether the engine's log is wanted, `of_pod` reads a Pod document with it.
Everything is read from the pod itself; Events are not, since they may be missing or late.
"""

from tidegate.core.causes.cause import Cause, worst
from tidegate.core.causes.read import (
    LogWanted,
    is_leaving,
    is_ready,
    log_key,
    needs_log,
    of_deployment,
    of_pod,
    of_restart,
)

__all__ = [
    "Cause",
    "LogWanted",
    "is_leaving",
    "is_ready",
    "log_key",
    "needs_log",
    "of_deployment",
    "of_pod",
    "of_restart",
    "worst",
]
