"""Prometheus of these tests: what it tells of each deployment, as a test sets it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.overload.load import Load
from tidegate.core.overload.signal import Key, Reading, Sample, Signal, Signals, Unknown
from tidegate.flow.ports import Ref

KV: Key = ("unified", Signal.KV_USAGE)
BACKLOG: Key = ("unified", Signal.PREFILL_BACKLOG)


@dataclass
class Metrics:
    """`age_seconds` is how old each sample is; `asked` counts the questions.

    `unsampled` are pods that are not scraped.
    """

    values: dict[Ref, dict[Key, float | Unknown]] = field(default_factory=dict)
    carried: dict[Ref, Load] = field(default_factory=dict)
    silence: Unknown | None = None
    age_seconds: float = 2.0
    asked: int = 0
    unsampled: set[str] = field(default_factory=set)

    def tell(self, kv: float | Unknown, backlog: float | Unknown = 0.0, name: str = "chat") -> None:
        """Tell these of a deployment from now on."""
        self.values[Ref("default", name)] = {KV: kv, BACKLOG: backlog}

    # the port

    async def signals(self, now: float) -> Mapping[Ref, Signals]:
        self.asked += 1
        if self.silence is not None:
            return {}
        return {
            ref: {key: self._reading(value, now) for key, value in values.items()}
            for ref, values in self.values.items()
        }

    def has_sample(self, ref: Ref, pod: str) -> bool:
        return pod not in self.unsampled

    def loads(self) -> Mapping[Ref, Load]:
        return {} if self.silence is not None else self.carried

    def why_silent(self) -> Unknown | None:
        return self.silence

    def _reading(self, value: float | Unknown, now: float) -> Reading:
        return value if isinstance(value, Unknown) else Sample(value, now - self.age_seconds)
