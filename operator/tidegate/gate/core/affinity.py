"""Whether sending equal prefixes to one pod pays: what the engines' prefix caches really hit."""

from dataclasses import dataclass

from tidegate.gate.exchange import Scrape

PAYS_FROM = 0.05
"""Share of prompt tokens found in the cache from which affinity is worth its uneven load."""
_LEAST_TOKENS = 10_000
"""Prompt tokens of which less tells nothing."""
_MEMORY_TOKENS = 1_000_000
"""About so many late tokens count."""


@dataclass(slots=True)
class _Pod:
    queries_before: float | None = None
    hits_before: float = 0.0
    queries: float = 0.0
    hits: float = 0.0


class PrefixHits:
    """The hit rates of the pods' prefix caches, weighted by tokens, of late."""

    def __init__(self) -> None:
        self._pods: dict[str, _Pod] = {}

    def present(self, names: set[str]) -> None:
        """Forget the pods that are no more."""
        self._pods = {name: pod for name, pod in self._pods.items() if name in names}

    def observe(self, name: str, scrape: Scrape) -> None:
        """Take a pod's counters; they begin anew when its engine restarts."""
        queries, hits = scrape.prefix_queries, scrape.prefix_hits
        if queries is None or hits is None:
            return
        pod = self._pods.setdefault(name, _Pod())
        if pod.queries_before is not None and queries >= pod.queries_before:
            pod.queries += queries - pod.queries_before
            pod.hits += max(0.0, hits - pod.hits_before)
            if pod.queries > _MEMORY_TOKENS:
                kept = _MEMORY_TOKENS / pod.queries / 2
                pod.queries *= kept
                pod.hits *= kept
        pod.queries_before, pod.hits_before = queries, hits

    def rate(self, name: str) -> float | None:
        """Return the share of a pod's prompt tokens that were cached; None when not known."""
        pod = self._pods.get(name)
        return pod.hits / pod.queries if pod is not None and pod.queries else None

    def pays(self) -> bool | None:
        """Tell whether affinity pays over all pods; None while too little is known."""
        queries = sum(pod.queries for pod in self._pods.values())
        if queries < _LEAST_TOKENS:
            return None
        return sum(pod.hits for pod in self._pods.values()) >= PAYS_FROM * queries
