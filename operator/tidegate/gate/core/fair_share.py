"""Fair share between tenants, by tokens: start-time fair queueing, and tokens in flight.

Each request has a start tag: the virtual time, or where its tenant's earlier requests end if that
is later. Requests are served by start tag; so each tenant that waits gets as many tokens as any
other, and one that was away has saved up nothing.
"""

from tidegate.gate.core.demand import Demand
from tidegate.gate.core.speeds import Stay

MOST_IDLE_TENANTS = 1024


class Account:
    """One tenant's."""

    __slots__ = ("finish_tag", "stay", "tokens_in_flight")

    def __init__(self) -> None:
        self.finish_tag = 0.0
        self.stay = Stay()
        self.tokens_in_flight = 0


class FairShare:
    """The tenants' accounts."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._virtual_time = 0.0

    def of(self, tenant: str) -> Account:
        """Return a tenant's account."""
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = Account()
        return account

    def tag(self, demand: Demand) -> None:
        """Give a request its place among the tenants'."""
        account = self.of(demand.ask.caller.tenant)
        demand.start_tag = max(self._virtual_time, account.finish_tag)
        account.finish_tag = demand.start_tag + demand.cost_tokens

    def serve(self, demand: Demand) -> None:
        """A request is seated: the virtual time moves on to it."""
        self._virtual_time = max(self._virtual_time, demand.start_tag)

    def give_up(self, demand: Demand) -> None:
        """A request is not served: it does not count against its tenant."""
        account = self.of(demand.ask.caller.tenant)
        account.finish_tag -= demand.cost_tokens

    def prune(self) -> None:
        """Forget tenants that hold nothing and are owed nothing."""
        if len(self._accounts) <= MOST_IDLE_TENANTS:
            return
        now = self._virtual_time
        self._accounts = {
            name: account
            for name, account in self._accounts.items()
            if account.tokens_in_flight or account.finish_tag > now
        }
