"""Whether scheduling is asynchronous: it decides how many tokens are in flight."""

from tidegate.api.reasons import Reason
from tidegate.errors import Refused


def settle(asked: bool | None, why_synchronous: str | None, field: str) -> bool | None:
    """Return what is asked for, or False where something keeps it synchronous; None is neither.

    Raises:
        Refused: FLAG_UNSUPPORTED, it is asked for beside what it does not go with.
    """
    if why_synchronous is None:
        return asked
    if asked:
        raise Refused(
            Reason.FLAG_UNSUPPORTED,
            f"async-scheduling does not go with {why_synchronous}; leave it out",
            field,
        )
    return False
