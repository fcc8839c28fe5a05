"""How much of what is asked is served, by class, size and tenant; and who leaves room for whom.

Pods that are full free a little room again and again, and whoever asks most often takes it: small
requests, the tenant with the most of them, and no class before another. So whoever is better off
leaves room for one more request: of a higher class that is not fully served, of a larger size
that is served far worse, or of a tenant that got far fewer tokens and asks for more.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.gate.core.demand import Demand

FULLY_SERVED = 0.95
FAR_WORSE = 0.5
"""Who has less than this times as much as another is far worse off."""
FEWEST_ASKED = 2.0
"""Requests of late from which on a share says anything."""
KEEP_EVERY_TICK = 0.995
"""What was asked and served fades: at 20 ticks a second half of it is forgotten in 7 s."""
FORGOTTEN = 0.2
_NEW = 0.2


@dataclass(slots=True)
class Group:
    """Requests that are alike: of one size, or of one tenant; all of one class."""

    priority: int
    size: int
    """Costs of 2^(size-1) to 2^size tokens; 0 for a tenant."""
    prompt_tokens: float
    expected_tokens: float
    asked: float = 0.0
    served: float = 0.0
    served_tokens: float = 0.0

    @property
    def share(self) -> float:
        """Share of its requests that were seated, of late."""
        return min(1.0, self.served / self.asked) if self.asked else 1.0

    @property
    def is_short(self) -> bool:
        """Tell whether it is known to want more than it gets."""
        return self.asked >= FEWEST_ASKED and self.share < FULLY_SERVED

    def count(self, demand: Demand) -> None:
        """Count a request that asks."""
        self.asked += 1
        self.prompt_tokens += _NEW * (demand.prompt_tokens - self.prompt_tokens)
        self.expected_tokens += _NEW * (demand.expected_tokens - self.expected_tokens)

    def fade(self) -> None:
        """Forget a little."""
        self.asked *= KEEP_EVERY_TICK
        self.served *= KEEP_EVERY_TICK
        self.served_tokens *= KEEP_EVERY_TICK


class Served:
    """Keeps the groups; looks at each tick who falls short."""

    def __init__(self) -> None:
        self._sizes: dict[tuple[int, int], Group] = {}
        self._tenants: dict[tuple[int, str], Group] = {}
        self._short_sizes: list[Group] = []
        self._poorest: dict[int, Group] = {}

    def asked(self, demand: Demand) -> None:
        """Count a request, and set what it must leave room for beside its own."""
        caller = demand.ask.caller
        by_size = (caller.priority, demand.cost_tokens.bit_length())
        by_tenant = (caller.priority, caller.tenant)
        size, tenant = self._sizes.get(by_size), self._tenants.get(by_tenant)
        if size is None:
            size = self._sizes[by_size] = _group(demand, by_size[1])
        if tenant is None:
            tenant = self._tenants[by_tenant] = _group(demand, 0)
        size.count(demand)
        tenant.count(demand)
        demand.groups = (size, tenant)
        self.leave_room(demand)

    def seated(self, demand: Demand) -> None:
        """Count one that is served."""
        for group in demand.groups:
            group.served += 1
            group.served_tokens += demand.cost_tokens

    def tick(self) -> None:
        """Forget a little; see who falls short."""
        for groups in (self._sizes, self._tenants):
            for group in groups.values():
                group.fade()
        self._sizes = {k: group for k, group in self._sizes.items() if group.asked > FORGOTTEN}
        self._tenants = {k: group for k, group in self._tenants.items() if group.asked > FORGOTTEN}
        self._short_sizes = [group for group in self._sizes.values() if group.is_short]
        self._poorest = {}
        for group in self._tenants.values():
            poorest = self._poorest.get(group.priority)
            if group.is_short and (not poorest or group.served_tokens < poorest.served_tokens):
                self._poorest[group.priority] = group

    def leave_room(self, demand: Demand) -> None:
        """Set what a request must leave room for, as things are now."""
        demand.spare_prompt_tokens = demand.spare_output_tokens = 0
        if not self._short_sizes or not demand.groups:
            return
        size, tenant = demand.groups
        worse = max(_worse_off(size, self._short_sizes), key=_cost, default=None)
        poorest = self._poorest.get(tenant.priority)
        if worse is None and poorest is not None:
            is_far_worse = poorest.served_tokens < FAR_WORSE * tenant.served_tokens
            worse = poorest if is_far_worse else None
        if worse is not None:
            demand.spare_prompt_tokens = round(worse.prompt_tokens)
            demand.spare_output_tokens = round(worse.expected_tokens)


def _group(demand: Demand, size: int) -> Group:
    priority = demand.ask.caller.priority
    return Group(priority, size, demand.prompt_tokens, demand.expected_tokens)


def _cost(group: Group) -> float:
    return group.prompt_tokens + group.expected_tokens


def _worse_off(own: Group, short: Iterable[Group]) -> Iterable[Group]:
    least = FAR_WORSE * own.share
    for group in short:
        is_larger = group.priority == own.priority and group.size > own.size
        if group.priority > own.priority or (is_larger and group.share < least):
            yield group
