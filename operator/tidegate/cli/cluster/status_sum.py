"""What several gates say of one deployment's pods, put together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]


@dataclass
class PodTotal:
    """One engine's pod over all gates: each has a part of its KV cache to give."""

    name: str
    pool: str
    revision: str
    reserved_tokens: int = 0
    capacity_tokens: int = 0
    requests: int = 0
    prefill_backlog_tokens: int = 0
    prefill_tokens_per_second: float | None = None
    """What the gate that reckons with the least reckons with; None where none tells."""
    scrape_age_seconds: float | None = None
    """Since it last told a gate how full its KV cache is; None where it told none."""
    kv_usages: list[float] = field(default_factory=list)
    """How full its KV cache is by its own metrics (0 to 1), as each gate saw it of late."""
    states: set[str] = field(default_factory=set)
    """`terminating`, `ejected`: said by one gate at least."""

    @property
    def kv_usage(self) -> float | None:
        """The mean over the gates, for all look at one cache; None where none was told."""
        return sum(self.kv_usages) / len(self.kv_usages) if self.kv_usages else None

    def document(self) -> dict[str, Any]:
        """Return it as `--output json` shows it."""
        return {
            "name": self.name,
            "pool": self.pool,
            "revision": self.revision,
            "reservedTokens": self.reserved_tokens,
            "capacityTokens": self.capacity_tokens,
            "requests": self.requests,
            "prefillBacklogTokens": self.prefill_backlog_tokens,
            "prefillTokensPerSecond": self.prefill_tokens_per_second,
            "scrapeAgeSeconds": self.scrape_age_seconds,
            "kvUsage": self.kv_usage,
            "states": sorted(self.states),
        }


@dataclass(frozen=True)
class GateAnswer:
    """One gate, and the document of its `/podz`; `error` where it gave none."""

    name: str
    told: Document | None
    error: str = ""


def pods(answers: Iterable[GateAnswer]) -> list[PodTotal]:
    """Add up what the gates say of each pod, by pool and name."""
    totals: dict[str, PodTotal] = {}
    for answer in answers:
        for entry in (answer.told or {}).get("pods") or ():
            name = str(entry["name"])
            total = totals.setdefault(
                name, PodTotal(name, str(entry["pool"]), str(entry["revision"]))
            )
            _add(total, entry)
    return sorted(totals.values(), key=lambda total: (total.pool, total.name))


def queued(answers: Iterable[GateAnswer]) -> int:
    """Return the requests that wait in all gates."""
    return sum(int((answer.told or {}).get("queued") or 0) for answer in answers)


def largest_share(answers: Sequence[GateAnswer], key: str) -> float:
    """Return the largest shed or shift share that a gate applies now."""
    return max((float((answer.told or {}).get(key) or 0) for answer in answers), default=0.0)


def _add(total: PodTotal, entry: Document) -> None:
    total.reserved_tokens += int(entry["reservedTokens"])
    total.capacity_tokens += int(entry["capacityTokens"])
    total.requests += int(entry["requests"])
    total.prefill_backlog_tokens += int(entry["prefillBacklogTokens"])
    total.prefill_tokens_per_second = _least(
        total.prefill_tokens_per_second, entry.get("prefillTokensPerSecond")
    )
    total.scrape_age_seconds = _least(total.scrape_age_seconds, entry.get("scrapeAgeSeconds"))
    if entry.get("kvUsage") is not None:
        total.kv_usages.append(float(entry["kvUsage"]))
    total.states |= {state for state in ("terminating", "ejected") if entry.get(state)}


def _least(known: float | None, told: float | None) -> float | None:
    if told is None or known is None:
        return known if told is None else float(told)
    return min(known, float(told))
