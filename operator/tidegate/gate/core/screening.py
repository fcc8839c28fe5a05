"""What is decided of a request before any pod is looked at."""

from tidegate.api.gate_config import GateConfig
from tidegate.gate.core import denials
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.demand import WITHOUT_KV, Demand
from tidegate.gate.core.fair_share import FairShare
from tidegate.gate.core.ledger import Ledger
from tidegate.gate.core.placement import Placement
from tidegate.gate.core.queue import Queue
from tidegate.gate.core.turnaway import Turnaway
from tidegate.gate.exchange import Refusal, Shift, Why


class Screening:
    """Shares set from outside, pods that are missing, what never fits, the tenant's limit."""

    def __init__(
        self,
        choice: Choice,
        placement: Placement,
        ledger: Ledger,
        shares: FairShare,
        queue: Queue,
        turnaway: Turnaway,
    ) -> None:
        self._choice = choice
        self._placement = placement
        self._ledger = ledger
        self._shares = shares
        self._queue = queue
        self._turnaway = turnaway

    def screen(
        self, demand: Demand, config: GateConfig, gates: int, now: float, wall: float
    ) -> Refusal | Shift | None:
        """Return the answer of a request that needs no seat here; None for all others."""
        share = self._choice.share(demand.ask, config, wall)
        if isinstance(share, Shift):
            return share
        if share is Why.SHED:
            reason = config.shed.reason if config.shed else ""
            detail = f"The reason: {reason.rstrip('.')}." if reason else ""
            return self._turnaway.contended(demand, Why.SHED, now, detail)
        missing = self._placement.missing(demand.ask)
        if missing is not None:
            return self._turnaway.unavailable(missing, now)
        return self._too_long(demand) or self._over_limit(demand, config, gates)

    def _too_long(self, demand: Demand) -> Refusal | None:
        """Refuse what no empty pod could hold: a prompt, and one token of each of its answers.

        An engine runs several prompts one after another where it has no room for all at once.
        """
        ask = demand.ask
        if ask.surface in WITHOUT_KV:
            return None
        tokens = ask.prompt_tokens if ask.fewest_tokens is None else ask.fewest_tokens
        samples = ask.samples // ask.prompts
        largest: tuple[int, int] | None = None
        for blocks, room in self._ledger.largest(self._placement.pools[0]):
            needed = blocks.of_request(tokens, 1, samples)
            if needed <= room:
                return None
            if largest is None or room > largest[1]:
                largest = (needed, room)
        if largest is None:
            return None
        is_exact = tokens == ask.prompt_tokens
        return denials.too_long(tokens, samples, *largest, is_exact=is_exact)

    def _over_limit(self, demand: Demand, config: GateConfig, gates: int) -> Refusal | None:
        """Refuse a tenant beyond its limit; one that has nothing here may always have one request.

        What waits counts as held: so that nobody waits who could not be seated.
        """
        caller = demand.ask.caller
        limit = caller.tokens_in_flight or config.limits.tenant_tokens_in_flight
        if limit is None:
            return None
        account = self._shares.of(caller.tenant)
        held = account.tokens_in_flight + self._queue.tokens_of(caller.tenant)
        too_many = held + demand.cost_tokens - limit / gates
        if not held or too_many <= 0:
            return None
        detail = f"They hold, or wait for, {held} of {limit // gates} tokens in this gate."
        return self._turnaway.over_limit(account, min(held, too_many), detail)
