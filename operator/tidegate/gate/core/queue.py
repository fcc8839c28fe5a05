"""Requests that wait: by class, then by fair share, then by age."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, nsmallest

from tidegate.gate.core.demand import Demand, Kind

SLACK = 64
"""Entries that are over may lie in a heap up to so many beside as many as wait."""
_NOTHING = (0, 0, 0)
_Item = tuple[int, float, int, Demand]
"""Sorts by class, start tag and number."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What waits ahead of a request."""

    requests: int
    tokens: int
    prompt_tokens: int


class _Class:
    """What waits of one priority."""

    __slots__ = ("kinds", "prompt_tokens", "tenants", "tokens", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, Demand] = {}
        """By number, so in order of arrival."""
        self.tokens = 0
        self.prompt_tokens = 0
        self.tenants: dict[str, list[int]] = {}
        """Requests, tokens and prompt tokens that wait, by tenant."""
        self.kinds: dict[Kind, int] = {}
        """Requests that wait, by kind."""

    def count(self, demand: Demand, sign: int) -> None:
        self.tokens += sign * demand.cost_tokens
        self.prompt_tokens += sign * demand.prompt_tokens
        sums = self.tenants.setdefault(demand.ask.caller.tenant, [0, 0, 0])
        sums[0] += sign
        sums[1] += sign * demand.cost_tokens
        sums[2] += sign * demand.prompt_tokens
        if not sums[0]:
            del self.tenants[demand.ask.caller.tenant]
        self.kinds[demand.kind] = self.kinds.get(demand.kind, 0) + sign
        if not self.kinds[demand.kind]:
            del self.kinds[demand.kind]


class Queue:
    """The waiting requests in the order in which they are to be served.

    The order is (class, start tag of the fair share, number of arrival); there is a heap of it for
    each kind of request. Entries that are over stay in the heaps until they come up, or until they
    are as many as those that wait.
    """

    def __init__(self) -> None:
        self._classes: dict[int, _Class] = {}
        self._order: dict[Kind, list[_Item]] = {}
        self._entries = 0
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
        order = self._order.setdefault(demand.kind, [])
        heappush(order, (-priority, demand.start_tag, demand.number, demand))
        self._entries += 1
        heappush(self._deadlines, (demand.deadline, demand.number, demand))

    def remove(self, demand: Demand) -> None:
        """Take a request out; it is over."""
        group = self._classes[demand.ask.caller.priority]
        del group.waiting[demand.number]
        group.count(demand, -1)
        self._length -= 1
        demand.is_over = True
        self._compact()

    def first(self, number: int, kinds: int = 0) -> list[Demand]:
        """Return the first few that wait, and the first of so many kinds more; all go on waiting.

        They are in order.
        """
        orders = self._shown()
        found: list[Demand] = []
        # The children of the item at index i of a heap are at 2i + 1 and 2i + 2.
        near = [(order[0], 0, order) for order in orders]
        heapify(near)
        while near and len(found) < number:
            item, index, order = heappop(near)
            if not item[3].is_over:
                found.append(item[3])
            for child in range(2 * index + 1, min(2 * index + 3, len(order))):
                heappush(near, (order[child], child, order))
        if kinds:
            seen = {demand.kind for demand in found}
            others = [order[0] for order in orders if order[0][3].kind not in seen]
            found += [item[3] for item in nsmallest(kinds, others)]
        return found

    def alike(self, kind: Kind, priority: int) -> int:
        """Return how many of a kind wait, of this class and above."""
        groups = self._classes.items()
        return sum(group.kinds.get(kind, 0) for other, group in groups if other >= priority)

    def _shown(self) -> list[list[_Item]]:
        """Return the heaps, each with one that waits on top."""
        for kind, order in list(self._order.items()):
            while order and order[0][3].is_over:
                heappop(order)
                self._entries -= 1
            if not order:
                del self._order[kind]
        return list(self._order.values())

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
        if self._entries > 2 * self._length + SLACK:
            for kind, order in self._order.items():
                self._order[kind] = [item for item in order if not item[3].is_over]
                heapify(self._order[kind])
            self._entries = self._length
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
