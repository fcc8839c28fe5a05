"""Reviews off the event loop: what was judged before is answered at once, the rest by a thread.

To judge a spec on 50 classes of node takes a tenth of a second of CPU. On the loop every other
review, and the Lease, would wait for that long.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidegate.core import admission
from tidegate.core.admission import Facts, Memo, Recollection, Review, Unseen

SWITCH_SECONDS = 0.0005
"""How long the thread may keep the interpreter when the loop asks for it. An answer needs it some
five times, so Python's own 5 ms would make a known spec wait for 25 ms; an interval this short
costs a judgement a few percent."""

Document = dict[str, Any]


class Judge:
    """Reviews; one spec at a time is judged, and what came of it is remembered."""

    def __init__(self) -> None:
        self._memo = Memo()
        self._thread = ThreadPoolExecutor(1, "judge")

    async def review(self, old: Document | None, new: Document, facts: Facts) -> Review:
        """Return the review; other tasks go on while a spec that is not known is judged."""
        try:
            return admission.review(old, new, facts, Recollection(self._memo))
        except Unseen:
            learnt = Memo()  # its own: nothing is shared with the thread but what never changes
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._thread, admission.review, old, new, facts, learnt)
        self._memo.adopt(learnt)
        return found

    def close(self) -> None:
        """Begin nothing more; what is being judged is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def share_interpreter() -> None:
    """Have threads of this process give way to each other soon; to be called at its start."""
    sys.setswitchinterval(SWITCH_SECONDS)
