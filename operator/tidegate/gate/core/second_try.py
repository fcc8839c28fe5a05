"""A second try after a failure before the first byte: elsewhere, and not for everyone."""

from tidegate.gate.core import denials
from tidegate.gate.core.entry import Entry
from tidegate.gate.core.placement import Place, Placement
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.core.retry_budget import RetryBudget
from tidegate.gate.core.turnaway import Turnaway
from tidegate.gate.exchange import Outcome, Refusal, Why


class SecondTry:
    """Finds another place within the retry budget, never on a pod that failed the request."""

    def __init__(self, placement: Placement, budget: RetryBudget, turnaway: Turnaway) -> None:
        self._placement = placement
        self._budget = budget
        self._turnaway = turnaway

    def find(
        self,
        entry: Entry,
        failed: str | None,
        outcome: Outcome,
        now: float,
        *,
        step_one_failed: bool,
    ) -> Place | Refusal:
        """Find a place for a request whose seat has been closed.

        `failed` is None where only the transfer did: its decode pod can prefill for itself.
        """
        if not self._budget.take(now):
            return self._refuse(entry, outcome, now, "Too many requests are being sent again.")
        barred = entry.failed if failed is None else entry.failed | {failed}
        entry.demand.asked_at = now  # late is better than never: what it has waited is sunk
        place: Place | Why
        if failed is None and self._placement.may_have_again(entry.pod, now):
            place = Place(entry.pod)
        elif step_one_failed and entry.pod.may_get_more:
            place = self._other_prefill(entry, barred, now)
        else:
            place = self._placement.find(entry.demand, now, barred)
        if isinstance(place, Place):
            return place
        if place is Why.NO_PREFILL:
            return self._turnaway.unavailable(place, now)
        return self._refuse(entry, outcome, now, "No other pod has room.")

    def _other_prefill(self, entry: Entry, barred: frozenset[str], now: float) -> Place | Why:
        """Keep the decode pod and take one other prefill pod; after that none, if it may."""
        demand, pod = entry.demand, entry.pod
        if not entry.failed:
            prefill = self._placement.prefill_of(demand, pod.pod.revision, now, barred)
            if isinstance(prefill, PodBook):
                return Place(pod, prefill)
        if self._placement.may_skip_prefill:
            return Place(pod)
        return Why.NO_PREFILL

    def _refuse(self, entry: Entry, outcome: Outcome, now: float, detail: str) -> Refusal:
        missing = self._placement.missing(entry.demand.ask)
        if missing is not None:
            return self._turnaway.unavailable(missing, now)
        if outcome is Outcome.ENGINE_FULL:
            return self._turnaway.contended(entry.demand, Why.KV_BUDGET, now)
        return denials.failed(detail)
