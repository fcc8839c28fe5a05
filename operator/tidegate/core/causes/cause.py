"""A cause as a value, and which of several is shown."""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.api.reasons import Reason

# What cannot pass by itself comes before what may, and what is certain before what is guessed.
_BY_SEVERITY = (
    Reason.APPLY_REFUSED,
    Reason.ENGINE_FLAG_UNKNOWN,
    Reason.ENGINE_ARGUMENT_INVALID,
    Reason.KV_CACHE_TOO_SMALL,
    Reason.CUDA_OOM_AT_LOAD,
    Reason.CUDA_OOM_AT_CAPTURE,
    Reason.MODEL_ACCESS_DENIED,
    Reason.MODEL_NOT_FOUND,
    Reason.MODEL_REVISION_NOT_FOUND,
    Reason.MODEL_FILES_BROKEN,
    Reason.KV_TRANSFER_LIBRARY_MISSING,
    Reason.SHARED_MEMORY_TOO_SMALL,
    Reason.OUT_OF_MEMORY_KILLED,
    Reason.CONTAINER_CONFIG_INVALID,
    Reason.IMAGE_PULL_FAILED,
    Reason.STARTUP_TIMED_OUT,
    Reason.MODEL_HUB_UNREACHABLE,
    Reason.GPU_STILL_HELD,
    Reason.ENGINE_CRASHED,
    Reason.LIVENESS_KILLED,
    Reason.CRASH_LOOPING,
    Reason.EVICTED,
    Reason.NODE_LOST,
    Reason.UNSCHEDULABLE,
)
_RANK = {reason: rank for rank, reason in enumerate(_BY_SEVERITY)}


@dataclass(frozen=True)
class Cause:
    """Why one pod (or one Deployment's pods) does not serve."""

    reason: Reason
    message: str
    subject: str
    """Name of the pod or of the Deployment."""


def worst(causes: Iterable[Cause]) -> Cause | None:
    """Return the cause to show: the most severe, then the first by name; None of none."""
    return min(
        causes, key=lambda cause: (_RANK.get(cause.reason, len(_RANK)), cause.subject), default=None
    )
