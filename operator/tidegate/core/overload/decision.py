"""What the slow loop has decided for a deployment: shares, and why. A value, compared as such."""

from dataclasses import dataclass
from typing import Literal

from tidegate.api.gate_config import PoolName
from tidegate.api.reasons import Reason
from tidegate.core.overload.allowed import Allowed
from tidegate.core.overload.bracket import Bracket
from tidegate.core.overload.pressed import Pressed
from tidegate.core.overload.pressure import Standing
from tidegate.core.overload.recent import Highest
from tidegate.core.overload.signal import Signal

State = Literal["Normal", "Overloaded", "Override"]


@dataclass(frozen=True)
class Decision:
    """What holds for a deployment since its last change.

    Nothing here changes while nothing happens: neither the time nor a sample's age is in it, so
    an equal decision needs no write.

    Attributes:
        state: Whether a pool is overloaded by its thresholds, or a person's lever holds.
        shed_percent: Share of the requests that gates turn away, 0 to 100.
        shift_percent: Share of the requests that another deployment serves, 0 to 100.
        shift_to: That deployment; empty while nothing is shifted.
        reason: A documented constant.
        message: A sentence with the numbers that led to it.
        because: The steps of the reasoning, a sentence each.
        signal: The signal that decides; None where none is known or none is over its threshold.
        pool: The pool that it is of.
        value: Its value when this was decided.
        metric_age_seconds: How old its sample was then.
        since: When the state began, seconds since 1970.
        changed_at: When a share changed last, seconds since 1970; 0 where none ever did.
        until: When the shares lapse at the gates unless they are renewed, seconds since 1970.
        refused: Why a person's lever is not carried out, so that the loop decides; empty where
            none is refused.
    """

    state: State = "Normal"
    shed_percent: int = 0
    shift_percent: int = 0
    shift_to: str = ""
    reason: Reason = Reason.WITHIN_THRESHOLDS
    message: str = ""
    because: tuple[str, ...] = ()
    signal: Signal | None = None
    pool: PoolName | None = None
    value: float | None = None
    metric_age_seconds: float | None = None
    since: float = 0.0
    changed_at: float = 0.0
    until: float = 0.0
    refused: str = ""

    @property
    def has_shares(self) -> bool:
        """Tell whether some requests are turned away or shifted."""
        return bool(self.shed_percent or self.shift_percent)

    def lasts(self, now: float) -> bool:
        """Tell whether gates hold its shares still: they lapse where nobody has renewed them."""
        return not self.until or now < self.until


@dataclass(frozen=True)
class Timers:
    """What is remembered from tick to tick and shown to nobody; lost at a restart at no risk.

    Attributes:
        over_since: Since when a signal is over `enter` without a break; None while none is.
        under_since: Since when all known signals are under `exit`; None while one is not.
        unknown_since: Since when what decides is unknown; None while it is known.
        trail: Pressures of the last seconds with the times of their samples, oldest first.
        offered: The highest rates of requests of late, in requests per second.
        demands: The highest demands for the KV caches of late, in parts of the fullest one.
        bracket: Between which shares the load is borne; None while no overload is under way.
        is_trying: Whether less than is safe is being tried.
        vain_tries: How often that was too little.
        allowed: What the spec allowed at the last look; None before the first.
        shifted_at: When the share that is shifted grew last, seconds since 1970.
        shown_percent: The share that is shifted which the target's own figures have in them.
        pressed: What was too much for the target; None where nothing was.
    """

    over_since: float | None = None
    under_since: float | None = None
    unknown_since: float | None = None
    trail: tuple[tuple[float, float], ...] = ()
    offered: Highest = ()
    demands: Highest = ()
    bracket: Bracket | None = None
    is_trying: bool = False
    vain_tries: int = 0
    allowed: Allowed | None = None
    shifted_at: float = 0.0
    shown_percent: int = 0
    pressed: Pressed | None = None


@dataclass(frozen=True)
class Tick:
    """How often the loop looks, at data how old, and how long its shares hold without it.

    Attributes:
        interval_seconds: From one decision to the next.
        scrape_interval_seconds: From one sample of a target to the next.
        ttl_seconds: How long gates keep the shares when nobody renews them.
    """

    interval_seconds: float = 5.0
    scrape_interval_seconds: float = 15.0
    ttl_seconds: float = 60.0


@dataclass(frozen=True)
class Traffic:
    """What comes to a deployment's gates, as means over `queries.window_seconds`.

    Attributes:
        offered_per_second: Requests that come, those that are turned away or shifted included;
            None where that is unknown.
        admitted_per_second: Those of them that get a seat on a pod; None where that is unknown.
    """

    offered_per_second: float | None = None
    admitted_per_second: float | None = None

    @property
    def admitted_part(self) -> float | None:
        """The part that gets a seat, 0 to 1; None where nothing comes or nothing is known."""
        if not self.offered_per_second or self.admitted_per_second is None:
            return None
        return min(1.0, self.admitted_per_second / self.offered_per_second)


@dataclass(frozen=True)
class Headroom:
    """What another deployment can take, from its own signals and its gates.

    Attributes:
        exists: Whether the deployment is there and has a gate that serves.
        requests_per_second: Requests that it could serve beyond its present load; None: unknown.
        of_requests_per_second: Requests that come to the one that would shift, to set the former
            against; None: unknown.
        stands: How its own signals stand to its own thresholds.
        shifts: Where it shifts requests itself, if it does.
        shed_percent: Share of its requests that it turns away: its calm is that share's doing.
    """

    exists: bool
    requests_per_second: float | None = None
    of_requests_per_second: float | None = None
    stands: Standing = "unknown"
    shifts: Literal["nowhere", "elsewhere", "back"] = "nowhere"
    shed_percent: int = 0

    @property
    def is_pressed(self) -> bool:
        """Tell whether what it has is more than it bears."""
        return self.shed_percent > 0 or self.stands == "over enter"
