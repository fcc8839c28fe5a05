"""What a run shows of the loop: how soon, how steadily, at whose cost, and how it lets go."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.goodput.clients import Visit
from bench.protected.stage import LOW, MIDDLE, TOP
from tidegate.api.reasons import Reason

TEN_MINUTES_SECONDS = 600.0
ON_ITS_WAY_SECONDS = 5.0
"""Until a gate has read what was decided before; it looks at its file twice a second."""


@dataclass(frozen=True)
class Look:
    """A moment of a run.

    Attributes:
        at: Seconds since its begin.
        usage: How full the KV cache is by the engine itself, 0 to 1.
        shed: Percent that the gate turns away.
        shift: Percent that another deployment serves.
        told: What the loop says of its data.
    """

    at: float
    usage: float
    shed: float
    shift: float
    told: str

    @property
    def total(self) -> float:
        """Percent that this deployment does not serve."""
        return self.shed + self.shift


@dataclass(frozen=True)
class Score:
    """A run in numbers; None is what never came to be.

    Attributes:
        first_seconds: From the threshold to the first request that was shed or shifted.
        turns: Changes of direction under a load that stays, in ten minutes: of what is taken off
            in all, or of what is shifted, whichever has more.
        let_go_seconds: From the end of the load to no share at all.
        most_percent: The largest share.
        goodput: Requests per second under overload that were served in time and to the end, by
            class.
        asked: Requests per second that came then, by class.
        top_shed: Requests of the top class that were shed: the loop may lose none.
        blind_percent: Least and largest share while the loop had no data.
    """

    first_seconds: float | None
    turns: float
    let_go_seconds: float | None
    most_percent: float
    goodput: dict[int, float]
    asked: dict[int, float]
    top_shed: int
    blind_percent: tuple[float, float] | None


def score(
    looks: Sequence[Look],
    visits: Sequence[Visit],
    enter: float,
    begin_seconds: float,
    end_seconds: float,
    slo_seconds: float,
) -> Score:
    """Score a run.

    Args:
        looks: Its moments.
        visits: Its clients.
        enter: `kvUsage.enter`.
        begin_seconds: When the overload began.
        end_seconds: When it ended.
        slo_seconds: TTFT within which an answer is good.
    """
    under = [one for one in looks if begin_seconds <= one.at < end_seconds]
    asked = [one for one in visits if begin_seconds <= one.request.at_seconds < end_seconds]
    blind = [one.total for one in looks if is_blind(one)]
    seconds = end_seconds - begin_seconds
    return Score(
        first_seconds=_first(looks, enter, begin_seconds),
        turns=_turns(under) * TEN_MINUTES_SECONDS / seconds,
        let_go_seconds=_let_go(looks, end_seconds),
        most_percent=max((one.total for one in looks), default=0.0),
        goodput=_rates([one for one in asked if one.is_good(slo_seconds)], seconds),
        asked=_rates(asked, seconds),
        top_shed=sum(one.reason == "shed" and one.request.priority == TOP for one in visits),
        blind_percent=(min(blind), max(blind)) if blind else None,
    )


def turns(shares: Sequence[float]) -> int:
    """Count how often a share changes its direction; the first way up is none."""
    steps = [after > before for before, after in pairwise(shares) if after != before]
    return sum(one != other for one, other in pairwise(steps))


def _turns(looks: Sequence[Look]) -> int:
    return max(turns([one.total for one in looks]), turns([one.shift for one in looks]))


def grew(looks: Sequence[Look], since: float) -> float | None:
    """Return a share that grew after a moment at which all data went; None where none did."""
    seen = [one.total for one in looks if one.at >= since + ON_ITS_WAY_SECONDS]
    return next((after for before, after in pairwise(seen) if after > before), None)


def is_blind(look: Look) -> bool:
    """Tell whether the loop had no data, or not all of them."""
    return look.told not in ("", Reason.METRICS_FRESH)


def _first(looks: Sequence[Look], enter: float, begin: float) -> float | None:
    """Return the time from the threshold to a share that the gate applies."""
    over = next((one.at for one in looks if one.at >= begin and one.usage >= enter), None)
    if over is None:
        return None
    acted = next((one.at for one in looks if one.at >= over and one.total), None)
    return None if acted is None else acted - over


def _let_go(looks: Sequence[Look], end: float) -> float | None:
    after = [one for one in looks if one.at >= end]
    last = next((one.at for one in reversed(after) if one.total), end)
    is_free = bool(after) and not after[-1].total
    return last - end if is_free else None


def _rates(visits: Sequence[Visit], seconds: float) -> dict[int, float]:
    return {
        priority: sum(one.request.priority == priority for one in visits) / seconds
        for priority in (TOP, MIDDLE, LOW)
    }
