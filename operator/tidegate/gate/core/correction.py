"""What a pod's own metrics correct in the ledger: its size, and what the ledger does not see."""

from math import isfinite

from tidegate.gate.core.late_usage import LateUsage
from tidegate.gate.exchange import Scrape

RUNNING_SCRAPES = 3
"""Scrapes running that must agree before the ledger is doubted: one may fall between two steps."""
STALE_INTERVALS = 3
FIRST_INTERVAL_SECONDS = 0.5
"""Scrapes come at most twice a second; until two were seen, that is the interval."""
LARGEST_SHARE = 0.5
"""At most this share of a pod is taken from the ledger."""
CAUTION_RISE = 1.5
CAUTION_DECAY = 0.01
"""Caution rises by half with each scrape that tells of preemptions, and goes back by 1 %."""
MOST_CAUTION = 10.0
NULL_BLOCKS = 1
"""The engine keeps one block for itself."""


class Correction:
    """Blocks of one pod that the engine uses and the ledger does not know of."""

    __slots__ = (
        "_excess",
        "_interval",
        "_preemptions",
        "at",
        "blocks",
        "caution",
        "has_others",
        "others_blocks",
        "unseen",
        "usage",
    )

    def __init__(self) -> None:
        self.at: float | None = None
        """When the pod last told how full its KV cache is."""
        self.blocks: int | None = None
        """Blocks that requests may take, as the engine says; None until it did."""
        self.unseen = 0
        """Blocks to leave out of the capacity."""
        self.others_blocks: int | None = None
        """Blocks that others than this gate hold, at most; None while the engine does not tell."""
        self.has_others = False
        """The engine tells that it works for others than this gate."""
        self.caution = 1.0
        """How much more than usual is to be kept free, since the engine preempted."""
        self.usage = LateUsage()
        self._preemptions: float | None = None
        self._interval = FIRST_INTERVAL_SECONDS
        self._excess: list[int] = []

    def observe(
        self, scrape: Scrape, known_blocks: int, begun_blocks: int = 0, own_sequences: int = 0
    ) -> None:
        """Compare what the engine uses with the blocks that the ledger knows to be in use.

        `begun_blocks` are those of this gate's own requests that have begun to answer,
        `own_sequences` are those of all that it has there.
        """
        if scrape.num_gpu_blocks is not None and scrape.num_gpu_blocks > NULL_BLOCKS:
            self.blocks = scrape.num_gpu_blocks - NULL_BLOCKS
        self._heed(scrape.preemptions)
        usage = _sane(scrape.kv_usage)
        if usage is not None:
            self.usage.see(usage, scrape.at)
        if self.blocks is None or usage is None:
            self._excess.clear()
            self.unseen //= 2
            self._forget_others()
            return
        self._heard(scrape.at)
        used_blocks = round(usage * self.blocks)
        self.others_blocks = max(0, used_blocks - begun_blocks)
        # Blocks may be kept of one that has ended, for a decode pod to fetch.
        works = scrape.running is None or scrape.running + (scrape.waiting or 0) > own_sequences
        self.has_others = works and self.others_blocks > 0
        self._excess.append(used_blocks - known_blocks)
        del self._excess[:-RUNNING_SCRAPES]
        least = min(self._excess)
        if least > 0 and len(self._excess) == RUNNING_SCRAPES:
            self.unseen = min(least, int(self.blocks * LARGEST_SHARE))
        elif self._excess[-1] <= 0:
            self.unseen //= 2

    def _heard(self, at: float) -> None:
        """Learn the interval; one silence, however long, does not make the next one usual."""
        if self.at is not None and at > self.at:
            gap = min(at - self.at, STALE_INTERVALS * self._interval)
            self._interval += (gap - self._interval) / 4
        self.at = at

    def _heed(self, preemptions: float | None) -> None:
        """Become careful when the engine's counter of preemptions has grown."""
        if preemptions is None or not isfinite(preemptions):
            return
        before, self._preemptions = self._preemptions, preemptions
        if before is not None and preemptions > before:
            self.caution = min(MOST_CAUTION, self.caution * CAUTION_RISE)
        else:
            self.caution = max(1.0, self.caution * (1 - CAUTION_DECAY))

    def expire(self, now: float) -> bool:
        """Go back to the ledger alone when the pod has been silent; tell whether it did."""
        if self.at is None or now - self.at <= STALE_INTERVALS * self._interval:
            return False
        had = self.unseen > 0 or self.others_blocks is not None
        self.unseen = 0
        self._forget_others()
        self._excess.clear()
        return had

    def _forget_others(self) -> None:
        self.others_blocks = None
        self.has_others = False


def _sane(usage: float | None) -> float | None:
    """Return a use of the KV cache, 0 to 1; None for what cannot be one."""
    return usage if usage is not None and 0 <= usage <= 1 else None
