"""Requests that wait: by class, then by fair share, then by age."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from tidegate.gate.core.demand import Demand

SLACK = 64
"""Entries that are over may lie in a heap up to so many beside as many as wait."""
_NOTHING = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What waits ahead of a request."""

    requests: int
    tokens: int
    prompt_tokens: int


class _Class:
    """What waits of one priority."""

    __slots__ = ("prompt_tokens", "tenants", "tokens", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, Demand] = {}
        """By number, so in order of arrival."""
        self.tokens = 0
        self.prompt_tokens = 0
        self.tenants: dict[str, list[int]] = {}
        """Requests, tokens and prompt tokens that wait, by tenant."""

    def count(self, demand: Demand, sign: int) -> None:
        self.tokens += sign * demand.cost_tokens
        self.prompt_tokens += sign * demand.prompt_tokens
        sums = self.tenants.setdefault(demand.ask.caller.tenant, [0, 0, 0])
        sums[0] += sign
        sums[1] += sign * demand.cost_tokens
        sums[2] += sign * demand.prompt_tokens
        if not sums[0]:
            del self.tenants[demand.ask.caller.tenant]


class Queue:
    """The waiting requests in the order in which they are to be served.

    The order is (class, start tag of the fair share, number of arrival). Entries that are over
    stay in the heaps until they come up, or until they are as many as those that wait.
    """

    def __init__(self) -> None:
        self._classes: dict[int, _Class] = {}
        self._order: list[tuple[int, float, int, Demand]] = []
        self._deadlines: list[tuple[float, int, Demand]] = []
        self._numbers = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, demand: Demand) -> None:
        """Let a request wait until its deadline."""
        self._numbers += 1
        demand.number = self._numbers
        priority = demand.ask.caller.priority
        group = self._classes.setdefault(priority, _Class())
        group.waiting[demand.number] = demand
        group.count(demand, 1)
        self._length += 1
        heappush(self._order, (-priority, demand.start_tag, demand.number, demand))
        heappush(self._deadlines, (demand.deadline, demand.number, demand))

    def remove(self, demand: Demand) -> None:
        """Take a request out; it is over."""
        group = self._classes[demand.ask.caller.priority]
        del group.waiting[demand.number]
        group.count(demand, -1)
        self._length -= 1
        demand.is_over = True
        self._compact()

    def first(self, number: int) -> list[Demand]:
        """Return the first few that wait; they go on waiting."""
        order = self._order
        while order and order[0][3].is_over:
            heappop(order)
        found: list[Demand] = []
        # The children of the item at index i of a heap are at 2i + 1 and 2i + 2.
        near = [(order[0], 0)] if order else []
        while near and len(found) < number:
            item, index = heappop(near)
            if not item[3].is_over:
                found.append(item[3])
            for child in range(2 * index + 1, min(2 * index + 3, len(order))):
                heappush(near, (order[child], child))
        return found

    def expired(self, now: float) -> Iterator[Demand]:
        """Yield those whose deadline has passed; the caller removes them."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            demand = heappop(deadlines)[2]
            if not demand.is_over:
                yield demand

    def newest_below(self, priority: int) -> Demand | None:
        """Return the newest of the lowest class that waits, if it is below `priority`."""
        lowest = min((p for p, group in self._classes.items() if group.waiting), default=None)
        if lowest is None or lowest >= priority:
            return None
        waiting = self._classes[lowest].waiting
        return waiting[next(reversed(waiting))]

    def ahead(self, priority: int, tenant: str) -> Ahead:
        """Return what is to be served before a new request of this class and tenant.

        All of the higher classes; of its own class all of its tenant, and of each other tenant
        as much as its own has, or one average request, since shares are equal.
        """
        requests = tokens = prompt_tokens = 0
        for other, group in self._classes.items():
            if other < priority or not group.waiting:
                continue
            whole = (len(group.waiting), group.tokens, group.prompt_tokens)
            if other == priority:
                whole = _fair_part(group, tenant, whole)
            requests += whole[0]
            tokens += whole[1]
            prompt_tokens += whole[2]
        return Ahead(requests, tokens, prompt_tokens)

    def tokens_of(self, tenant: str) -> int:
        """Return what a tenant's waiting requests, of all classes, are to hold."""
        return sum(group.tenants.get(tenant, _NOTHING)[1] for group in self._classes.values())

    def by_priority(self) -> dict[int, int]:
        """Return how many wait, by class."""
        return {p: len(group.waiting) for p, group in self._classes.items() if group.waiting}

    def prompt_tokens(self) -> int:
        """Return the prompt tokens of all that wait."""
        return sum(group.prompt_tokens for group in self._classes.values())

    def _compact(self) -> None:
        if len(self._order) > 2 * self._length + SLACK:
            self._order = [item for item in self._order if not item[3].is_over]
            heapify(self._order)
        if len(self._deadlines) > 2 * self._length + SLACK:
            self._deadlines = [item for item in self._deadlines if not item[2].is_over]
            heapify(self._deadlines)


def _fair_part(group: _Class, tenant: str, whole: tuple[int, int, int]) -> tuple[int, int, int]:
    own = group.tenants.get(tenant, _NOTHING)
    others = len(group.tenants) - (1 if own[0] else 0)
    average = [amount // whole[0] for amount in whole]
    parts = (
        min(total, mine + others * (mine + each))
        for total, mine, each in zip(whole, own, average, strict=True)
    )
    requests, tokens, prompt_tokens = parts
    return requests, tokens, prompt_tokens
