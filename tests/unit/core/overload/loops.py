"""The loop, tick by tick: what a test drives, and the signals that it is shown."""

from datetime import UTC, datetime

from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.reasons import Reason
from tidegate.core.overload.decide import decide
from tidegate.core.overload.decision import Decision, Headroom, Tick, Timers, Traffic
from tidegate.core.overload.signal import Sample, Signal, Unknown

START = 1_800_000_000.0
KV = ("decode", Signal.KV_USAGE)
BACKLOG = ("prefill", Signal.PREFILL_BACKLOG)
TICK = Tick(interval_seconds=5, scrape_interval_seconds=5, ttl_seconds=60)
GONE = Unknown(Reason.METRICS_STALE, "the newest sample is 47 s old")
ROOMY = Headroom(True, 100.0, 100.0, stands="under exit")
"""A target that could take everything."""


def spec(**parts):
    """Read `spec.overload`; it acts at once unless a part says otherwise."""
    return OverloadSpec.model_validate({"enterAfter": "0s", **parts}, by_alias=True, by_name=False)


def lever(action, until=START + 600, **parts):
    """Return `spec.overload.override`."""
    lapses = datetime.fromtimestamp(until, UTC).isoformat()
    return {"action": action, "until": lapses, "reason": "INC-1", **parts}


class Loop:
    """A deployment under the loop. `look` is one tick; values are fresh unless `age` says more.

    `now` is what its clock shows, which may be set back; `elapsed` is the time that has passed.
    """

    def __init__(self, spec, tick=TICK, previous=None):
        self.spec = spec
        self.tick = tick
        self.now = START
        self.elapsed = 0.0
        self.decision = previous or Decision()
        self.timers = Timers()
        self.seen = []

    @property
    def shares(self):
        return self.decision.shed_percent, self.decision.shift_percent

    def pull(self, **parts):
        """Have somebody set a lever that `lasts` some seconds; without parts, take it away."""
        until = self.now + parts.pop("lasts", 0)
        override = spec(override=lever(until=until, **parts)).override if parts else None
        self.spec = self.spec.model_copy(update={"override": override})

    def look(
        self,
        readings=None,
        headroom=ROOMY,
        after=5.0,
        age=0.0,
        offered=None,
        admitted=None,
        set_back=0.0,
        pulled=None,
        **values,
    ):
        """Let time pass and show the loop its signals: `kv=0.95`, `backlog=3`, or None.

        `headroom` is that of every other deployment, or of each by its name.
        """
        self.elapsed += after
        self.now += after - set_back
        if pulled is not None:
            self.pull(**pulled)
        signals = dict(readings or {})
        for key, name in ((KV, "kv"), (BACKLOG, "backlog")):
            if name in values:
                value = values[name]
                signals[key] = GONE if value is None else Sample(value, self.now - age)
        self.decision, self.timers = decide(
            self.spec,
            signals,
            headroom.get if isinstance(headroom, dict) else lambda to: headroom,
            self.decision,
            self.timers,
            self.now,
            self.tick,
            Traffic(offered, admitted),
        )
        self.seen.append(self.decision)
        return self.decision

    def looks(self, count, **shown):
        """Make several ticks with the same values."""
        for _ in range(count):
            self.look(**shown)
        return self.decision
