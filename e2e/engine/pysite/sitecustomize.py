"""Python imports this at start when the folder is on PYTHONPATH: two changes for few cores.

Tests only. Neither changes what the engine computes or answers.
"""

import os
import time

YIELD_SECONDS = 3e-5


def _yield_by_sleeping() -> None:
    # vLLM's workers spin on sched_yield for a second after each message; with two cores that
    # starves the server that should answer.
    time.sleep(YIELD_SECONDS)


def _ignore_pinning(pid: int, mask: object) -> None:
    # The NIXL worker pins itself to the last core, and so does the one of the other engine.
    del pid, mask


os.sched_yield = _yield_by_sleeping
os.sched_setaffinity = _ignore_pinning
