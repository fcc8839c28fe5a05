"""Which pods a request may go to, best first; and which requests go nowhere, or elsewhere.

Knows the pods, their health and the shares; of the ledger it knows only how full a pod is, and
that from whoever asks.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.gate.core.affinity import PrefixHits
from tidegate.gate.core.health import Health
from tidegate.gate.core.offers import Offers
from tidegate.gate.core.ring import Ring
from tidegate.gate.core.shares import Percentage, Weights, is_valid
from tidegate.gate.exchange import Ask, Pod, Scrape, Shift, Why

BOUND = 1.25
"""A pod takes what its prefixes bring it up to this many times the mean load."""
QUIET_LOAD = 0.25
"""Below it no pod is too full for its own prefixes, however empty the others are."""


class Choice:
    """Keeps ring, health, slow start and shares."""

    def __init__(self) -> None:
        self._pods: dict[PoolName, list[Pod]] = {}
        self._groups: dict[tuple[PoolName, str], _Group] = {}
        self._health: dict[PoolName, Health] = {}
        self._pool_of: dict[str, Health] = {}
        self._pools: Sequence[PoolName] = ()
        self._weights: dict[str, int] = {}
        self._offers = Offers()
        self._complete: dict[str, int] = {}
        self._present: dict[PoolName, set[str]] = {}
        self._missing: Why | None = Why.NO_ENDPOINTS
        self._revisions = Weights()
        self._shed = Percentage()
        self._shift = Percentage()
        self._hits = PrefixHits()

    # What the world says

    def endpoints(self, pool: PoolName, pods: Sequence[Pod], now: float) -> None:
        """Take the ready and terminating pods of a pool, all of them."""
        self._pods[pool] = [pod for pod in pods if not pod.terminating]
        self._hits.present({pod.name for held in self._pods.values() for pod in held})
        self._regroup(pool)
        self._look_at_health(pool, now)
        self._look_for_missing()

    def configure(self, config: GateConfig, now: float) -> None:
        """Take a new configuration; what is known of pods stays."""
        self._pools = tuple(config.services)
        self._weights = {
            revision.name: revision.weight for revision in config.revisions if revision.weight
        }
        self._offers = Offers(config)
        for pool in self._pods:
            self._look_at_health(pool, now)
        self._look_for_missing()

    def succeeded(self, pod: str, ttft_seconds: float | None, now: float) -> None:
        """A pod answered well."""
        health = self._pool_of.get(pod)
        if health is not None:
            health.succeeded(pod, ttft_seconds, now)

    def failed(self, pod: str, now: float, *, unreachable: bool = False) -> None:
        """A pod failed; one that is `unreachable` gets nothing more for a moment, at once."""
        health = self._pool_of.get(pod)
        if health is not None:
            health.failed(pod, now, unreachable=unreachable)

    def observe(self, pod: str, scrape: Scrape) -> None:
        """Take what a pod's own metrics say of its prefix cache."""
        self._hits.observe(pod, scrape)

    # What is asked

    def candidates(
        self,
        pool: PoolName,
        revision: str,
        prefix: bytes,
        load: Callable[[Pod], float],
        now: float,
    ) -> list[Pod]:
        """Return the pods of a revision in order of preference.

        The owner of the prefix comes first, or the next on the ring that is within the bound;
        then by `load`, the share of a pod's capacity that is taken. Ejected pods are left out;
        for a part of the calls a new pod comes last.
        """
        group = self._groups.get((pool, revision))
        if group is None:
            return []
        health = self._health[pool]
        is_settled = health.is_settled(now)
        pods = group.pods
        if not is_settled:
            pods = [pod for pod in pods if not health.is_ejected(pod.name, now)]
        if len(pods) < 2:
            return list(pods)
        loads = {pod.name: load(pod) for pod in group.turned(pods)}
        ordered = sorted(loads, key=loads.__getitem__)
        if prefix:
            bound = max(BOUND * sum(loads.values()) / len(loads), QUIET_LOAD)
            _bring_forward(group.ring.walk(prefix), loads, bound, ordered)
        if not is_settled:
            ordered = _thin(ordered, health, now)
        return [group.by_name[name] for name in ordered]

    def revisions(self, ask: Ask) -> list[str]:
        """Return the able revisions with ready pods in every pool, the one first that was drawn."""
        complete = self._complete
        able = {name: complete[name] for name in self._offers.able(ask) if name in complete}
        return self._revisions.order(ask, able)

    def able(self, ask: Ask) -> Collection[str]:
        """Return the revisions with weight that can answer a request, ready or not."""
        return self._offers.able(ask)

    def is_ejected(self, pod: str, now: float) -> bool:
        """Tell whether a pod is left out for its failures."""
        health = self._pool_of.get(pod)
        return health is not None and health.is_ejected(pod, now)

    def complete(self, ask: Ask | None = None) -> Why | None:
        """Say what is missing when no revision has ready pods in every pool.

        Of those that can answer this request, where one is asked about.
        """
        if ask is None or self._missing is not None:
            return self._missing
        able = self._offers.able(ask)
        if any(revision in self._complete for revision in able):
            return None
        return _what_is_missing(
            {pool: has.intersection(able) for pool, has in self._present.items()}
        )

    def has_ready(self, pool: PoolName, ask: Ask | None = None) -> bool:
        """Tell whether a revision that gets traffic, or this request, has a ready pod here."""
        has = self._present.get(pool, set())
        return bool(has if ask is None else has.intersection(self._offers.able(ask)))

    def share(self, ask: Ask, config: GateConfig, wall: float) -> Shift | Why | None:
        """Say whether this request is shifted, or shed (`Why.SHED`); `wall` is since 1970."""
        shed = config.shed if config.shed and is_valid(config.shed.until, wall) else None
        shift = config.shift if config.shift and is_valid(config.shift.until, wall) else None
        if shift is not None and not ask.shifted and self._shift.takes(ask, shift.percent):
            if shed is not None:
                self._shed.passes(ask, shed.percent)
            return Shift(shift.to, shift.port)
        if shed is not None and self._shed.takes(ask, shed.percent, shed.floor):
            return Why.SHED
        return None

    def hit_rate(self, pod: str) -> float | None:
        """Return the share of a pod's prompt tokens that its prefix cache had, of late."""
        return self._hits.rate(pod)

    def affinity_pays(self) -> bool | None:
        """Tell whether equal prefixes are worth one pod; None while too little is known."""
        return self._hits.pays()

    # What follows from it

    def _regroup(self, pool: PoolName) -> None:
        by_revision: dict[str, list[Pod]] = {}
        for pod in self._pods[pool]:
            by_revision.setdefault(pod.revision, []).append(pod)
        for key in [key for key in self._groups if key[0] == pool and key[1] not in by_revision]:
            del self._groups[key]
        for revision, pods in by_revision.items():
            known = self._groups.get((pool, revision))
            if known is None or known.pods != pods:
                self._groups[pool, revision] = _Group(pods)

    def _look_at_health(self, pool: PoolName, now: float) -> None:
        """Only pods that get requests count, and count towards the half that stays."""
        health = self._health.setdefault(pool, Health())
        names = [pod.name for pod in self._pods[pool] if pod.revision in self._weights]
        health.present(names, now)
        self._pool_of = {name: held for name, held in self._pool_of.items() if held is not health}
        self._pool_of |= dict.fromkeys(names, health)

    def _look_for_missing(self) -> None:
        self._present = has = {
            pool: {revision for revision in self._weights if (pool, revision) in self._groups}
            for pool in self._pools
        }
        self._complete = {
            revision: weight
            for revision, weight in self._weights.items()
            if all(revision in revisions for revisions in has.values())
        }
        self._missing = None if self._complete and has else _what_is_missing(has)


class _Group:
    """The ready pods of one pool and revision, and their ring."""

    def __init__(self, pods: list[Pod]) -> None:
        self.pods = pods
        self.by_name = {pod.name: pod for pod in pods}
        self.ring = Ring(pod.name for pod in pods)
        self._turn = 0

    def turned(self, pods: list[Pod]) -> list[Pod]:
        """Begin with another pod at each call: equals take turns, and gates do not run together."""
        self._turn = (self._turn + 1) % len(pods)
        return [*islice(pods, self._turn, None), *islice(pods, self._turn)]


def _bring_forward(
    names: Iterator[str], loads: Mapping[str, float], bound: float, ordered: list[str]
) -> None:
    """Put the first pod on the ring that is within the bound before all others."""
    for name in names:
        if loads.get(name, bound + 1) <= bound:
            ordered.remove(name)
            ordered.insert(0, name)
            return


def _thin(ordered: list[str], health: Health, now: float) -> list[str]:
    """Put new pods last for a part of the calls; where all are new, none is."""
    shares = {name: health.share(name, now) for name in ordered}
    most = max(shares.values())
    held = {name for name, share in shares.items() if not health.lets(name, share / most)}
    return sorted(ordered, key=held.__contains__)


def _what_is_missing(has: Mapping[PoolName, set[str]]) -> Why:
    if has.get("prefill"):
        return Why.NO_DECODE
    return Why.NO_PREFILL if has.get("decode") else Why.NO_ENDPOINTS
