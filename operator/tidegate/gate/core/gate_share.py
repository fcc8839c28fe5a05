"""Which part of every pod is this gate's to give, while the number of gates changes.

With N gates each has 1/N. A gate that is to have more than before, or has just started, does not
know what those hold who had it until now: they give it up only as their requests end. So a share
falls at once and rises slowly. What an engine itself shows to be free may be had at once, less as
much again as the others hold there, since their answers grow.
"""

OTHERS_GROW = 2.0
"""Times what the others hold now is what they may come to hold: of answers at all stages, half of
the tokens are still to come."""


class GateShare:
    """The share of one gate; `joins` is for one that starts while others may be serving."""

    __slots__ = ("_changed_at", "_start", "gates", "sure")

    def __init__(self, *, joins: bool = False) -> None:
        self.gates = 1
        self.sure = 0.0 if joins else 1.0
        """Share that nobody else counts on any more; 1/N in the end."""
        self._start = self.sure
        self._changed_at: float | None = None

    @property
    def is_settled(self) -> bool:
        """Tell whether all of the share may be given."""
        return self.sure >= 1 / self.gates

    @property
    def is_whole(self) -> bool:
        """Tell whether this gate is alone, and nobody who was here before holds anything."""
        return self.sure == 1.0

    def divide(self, gates: int) -> bool:
        """Share with so many gates, this one included; tell whether the share is to rise.

        The number is told again at each change of the endpoints; as long as it is the same, a
        rise goes on.
        """
        before, self.gates = self.gates, max(1, gates)
        if self.gates == before:
            return False
        self.sure = self._start = min(self.sure, 1 / self.gates)
        self._changed_at = None
        return self.gates < before

    def tick(self, now: float, seconds: float) -> bool:
        """Let it rise, to the whole within so many seconds; tell whether it did.

        It rises slowly at first: what the others hold still grows, and nothing of it has ended.
        """
        if self.is_settled:
            return False
        if self._changed_at is None:
            self._changed_at = now
        whole = 1 / self.gates
        done = min(1.0, (now - self._changed_at) / seconds)
        self.sure = whole if done == 1 else self._start + (whole - self._start) * done**2
        return True

    def is_clear(self, usable_blocks: float, others_blocks: float | None) -> bool:
        """Tell whether all of this gate's part of one pod may be given.

        So it is once the others hold no more than is theirs: they keep to that from then on.
        `others_blocks` are what they hold there as the engine tells; None: it does not.
        """
        if self.is_settled:
            return True
        return others_blocks is not None and (
            usable_blocks - OTHERS_GROW * others_blocks >= usable_blocks / self.gates
        )

    def whole_blocks(self, usable_blocks: float) -> int:
        """Return this gate's part of a pod; at least one block."""
        return max(1, int(usable_blocks / self.gates))

    def sure_blocks(self, usable_blocks: float, others_blocks: float | None) -> int:
        """Return what may be given of that part while a pod is not clear; at least one block."""
        sure = usable_blocks * self.sure
        if others_blocks is not None:
            sure = max(sure, usable_blocks - OTHERS_GROW * others_blocks)
        return max(1, int(min(sure, usable_blocks / self.gates)))
