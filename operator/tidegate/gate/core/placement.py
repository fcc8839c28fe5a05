"""Finding the pod, or the pair of pods, that can take a request now."""

from collections.abc import Collection, Sequence

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.gate.core import rule, surfaces
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.demand import Demand, Kind
from tidegate.gate.core.ledger import Ledger
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.pod_book import PodBook
from tidegate.gate.core.transfers import Transfers
from tidegate.gate.exchange import Ask, Why
from tidegate.gate.values import value_class

NOBODY: frozenset[str] = frozenset()


@value_class
class Place:
    """Where a request can go."""

    pod: PodBook
    prefill: PodBook | None = None


class Placement:
    """Tries the rule on the pods in question, best first."""

    def __init__(
        self, ledger: Ledger, choice: Choice, objectives: Objectives, transfers: Transfers
    ) -> None:
        self._ledger = ledger
        self._choice = choice
        self._objectives = objectives
        self._transfers = transfers
        self._is_pair = False
        self.may_skip_prefill = False
        self._named: list[str] = []

    def configure(self, config: GateConfig) -> None:
        """Take the shape of the deployment."""
        self._is_pair = config.is_pair
        self.may_skip_prefill = config.decode_may_prefill
        weighted = sorted(config.revisions, key=lambda revision: -revision.weight)
        self._named = [revision.name for revision in weighted if revision.weight]

    def books(self) -> tuple[list[PodBook], list[PodBook]]:
        """Return the books of the pods that answer, and of those that prefill."""
        answer_pool, prompt_pool = self.pools
        answer = list(self._ledger.pool(answer_pool))
        if answer_pool == prompt_pool:
            return answer, answer
        return answer, list(self._ledger.pool(prompt_pool)) or answer

    def books_for(self, ask: Ask) -> tuple[list[PodBook], list[PodBook]]:
        """Return the books of the pods that answer a request, and of those that prefill it."""
        answer, prompt = self.books()
        return (answer, prompt) if surfaces.can_split(ask) else (answer, answer)

    def roomiest(self, barred: Collection[str], now: float) -> str | None:
        """Return the pod with the most blocks to spare for an answer; None without a pod."""
        rooms = (
            (book.capacity_blocks - book.reserved_blocks, book.pod.name)
            for book in self._ledger.pool(self.pools[0])
            if book.pod.name not in barred and not self._choice.is_ejected(book.pod.name, now)
        )
        return max(rooms, default=(0, None))[1]

    def may_have_again(self, book: PodBook, now: float) -> bool:
        """Tell whether a pod can have a request once more that it has had."""
        return book.may_get_more and not self._choice.is_ejected(book.pod.name, now)

    def prefill_tokens_per_second(self) -> float | None:
        """Return the median speed of the pods that prefill; None while unknown."""
        speeds = sorted(s for book in self.books()[1] if (s := book.prefill.per_second))
        return speeds[len(speeds) // 2] if speeds else None

    @property
    def pools(self) -> Sequence[PoolName]:
        """The pool that answers and the pool that prefills."""
        return ("decode", "prefill") if self._is_pair else ("unified", "unified")

    def missing(self, ask: Ask | None = None) -> Why | None:
        """Say what is missing to serve anything at all, or this request."""
        why = self._choice.complete(ask)
        if why and self.may_skip_prefill and self._choice.has_ready("decode", ask):
            return None
        return why

    def kind(self, demand: Demand) -> Kind:
        """Return the kind of a request; its size is in powers of two."""
        ask = demand.ask
        is_split = self._is_pair and surfaces.can_split(ask)
        return demand.cost_tokens.bit_length(), is_split, tuple(self._choice.able(ask))

    def find(self, demand: Demand, now: float, barred: Collection[str] = NOBODY) -> Place | Why:
        """Find a place, or say why the pod that was preferred has none."""
        ask = demand.ask
        why: Why | None = None
        for revision in self._choice.revisions(ask):
            found = self._in_revision(demand, revision, now, barred)
            if isinstance(found, Place):
                return found
            why = why or found
        if why is None and self.may_skip_prefill and self._is_pair:
            able = self._choice.able(ask)
            for revision in filter(able.__contains__, self._named):
                found = self.without_prefill(demand, revision, now, barred)
                if isinstance(found, Place):
                    return found
                why = why or found
        return why or Why.KV_BUDGET  # all pods are kept for others, or left out

    def _in_revision(
        self, demand: Demand, revision: str, now: float, barred: Collection[str]
    ) -> Place | Why | None:
        if not self._is_pair:
            return self._alone("unified", demand, revision, now, barred)
        if not surfaces.can_split(demand.ask):
            return self._alone("decode", demand, revision, now, barred)
        return self._both(demand, revision, now, barred)

    def without_prefill(
        self, demand: Demand, revision: str, now: float, barred: Collection[str] = NOBODY
    ) -> Place | Why | None:
        """Find a decode pod that prefills for itself."""
        return self._alone("decode", demand, revision, now, barred)

    def prefill_of(
        self, demand: Demand, revision: str, now: float, barred: Collection[str] = NOBODY
    ) -> PodBook | Why | None:
        """Find a prefill pod; None when none is in question."""
        objectives = self._objectives
        waited = now - demand.asked_at
        refused: Why | None = None
        books = self._books("prefill", revision, demand.ask.prefix, now, barred)
        keeper = _keeper(demand, books)
        for book in books:
            if now < book.full_until:
                why: Why | None = Why.KV_BUDGET
            elif book.is_idle_for(demand, book.blocks_of_prompt(demand)):
                return book
            else:
                why = rule.holds_prompt(book, demand) or rule.is_in_time(
                    book, demand, objectives, waited, is_keeper=book is keeper
                )
            if why is None:
                return book
            refused = refused or why
        return refused

    def _both(
        self, demand: Demand, revision: str, now: float, barred: Collection[str]
    ) -> Place | Why | None:
        prefill = self.prefill_of(demand, revision, now, barred)
        if not isinstance(prefill, PodBook):
            return prefill
        refused: Why | None = None
        books = self._books("decode", revision, b"", now, barred)
        keeper = _keeper(demand, books)
        for book in books:
            is_pair = not self.may_skip_prefill or self._transfers.work(prefill, book, now)
            serves = self._answers if is_pair else self._serves_alone
            why = serves(book, demand, now, is_keeper=book is keeper)
            if why is None:
                return Place(book, prefill if is_pair else None)
            refused = refused or why
        return refused

    def _alone(
        self, pool: PoolName, demand: Demand, revision: str, now: float, barred: Collection[str]
    ) -> Place | Why | None:
        refused: Why | None = None
        books = self._books(pool, revision, demand.ask.prefix, now, barred)
        keeper = _keeper(demand, books)
        for book in books:
            why = self._serves_alone(book, demand, now, is_keeper=book is keeper)
            if why is None:
                return Place(book)
            refused = refused or why
        return refused

    def _serves_alone(
        self, book: PodBook, demand: Demand, now: float, *, is_keeper: bool
    ) -> Why | None:
        """Test a pod for the answer and the prompt."""
        why = self._answers(book, demand, now, is_keeper=is_keeper)
        if why is None and demand.sequences and not _is_idle(book, demand):
            waited = now - demand.asked_at
            why = rule.is_in_time(book, demand, self._objectives, waited, is_keeper=is_keeper)
        return why

    def _answers(self, book: PodBook, demand: Demand, now: float, *, is_keeper: bool) -> Why | None:
        """Test a pod for the answer; one that is idle takes anything."""
        if not demand.sequences:
            return None
        if now < book.full_until:
            return Why.KV_BUDGET
        if _is_idle(book, demand):
            return None
        return rule.has_room(book, demand, self._objectives, is_keeper=is_keeper)

    def _books(
        self, pool: PoolName, revision: str, prefix: bytes, now: float, barred: Collection[str]
    ) -> list[PodBook]:
        books, ledger = self._ledger.books, self._ledger
        pods = self._choice.candidates(pool, revision, prefix, ledger.load, now)
        return [books[pod.name] for pod in pods if pod.name in books and pod.name not in barred]


def _is_idle(book: PodBook, demand: Demand) -> bool:
    """Tell whether a pod that is to answer has nothing to do that the request would meet."""
    return not book.visits and book.is_idle_for(demand, book.needed(demand)[0])


def _keeper(demand: Demand, books: Sequence[PodBook]) -> PodBook | None:
    """Return the one pod that keeps room for those who are worse off; always the same."""
    if not demand.spare_prompt_tokens and not demand.spare_output_tokens:
        return None
    return min(books, key=lambda book: book.pod.name, default=None)
