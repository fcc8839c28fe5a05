"""Where a history may be cut: the world as it was before each round of passes that wrote.

A crash is played from such a moment on. What was before it is the same for all crashes, and is
played once.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from .world import World


@dataclass
class Moments:
    """Called after each round of a history, it keeps the world before it if the round wrote."""

    world: World
    kept: list[tuple[World, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._mark()

    def __call__(self) -> None:
        wrote = len(self.world.api.writes) - len(self.before.api.writes)
        if wrote:
            self.kept.append((self.before, wrote))
        self._mark()

    def _mark(self) -> None:
        self.before = self.world.branch()

    def crashes(self) -> Iterator[World]:
        """Yield a world for each write, in which the process is about to end right after it."""
        for before, writes in self.kept:
            for count in range(writes):
                world = before.branch()
                world.api.crash_after = count
                yield world


async def crashed(
    world: World, steps: Sequence[Callable[[World], object]]
) -> AsyncIterator[tuple[int, World]]:
    """Play steps, each until all is at rest; then yield what a crash after each write leads to."""
    cut = []
    for number, step in enumerate(steps):
        step(world)
        moments = Moments(world)
        await world.run(watch=moments)
        cut += [(one, steps[number + 1 :]) for one in moments.crashes()]
    assert len(cut) == len(world.api.writes)
    for number, (one, later) in enumerate(cut):
        await one.run()
        for step in later:
            step(one)
            await one.run()
        yield number, one
