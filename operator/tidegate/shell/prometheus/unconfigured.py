"""The port `Metrics` of an operator that was given no Prometheus."""

from collections.abc import Mapping

from tidegate.api.reasons import Reason
from tidegate.core.overload.load import Load
from tidegate.core.overload.signal import Signals, Unknown
from tidegate.flow.ports import Ref


class Unconfigured:
    """Tells nothing, and why."""

    async def signals(self, now: float) -> Mapping[Ref, Signals]:
        """Return that nothing is known of any deployment."""
        return {}

    def has_sample(self, ref: Ref, pod: str) -> bool:
        """Say that nothing is known of a pod."""
        return False

    def loads(self) -> Mapping[Ref, Load]:
        """Return that nothing is known of what gates carry."""
        return {}

    def why_silent(self) -> Unknown:
        """Return that there is no Prometheus to ask."""
        return Unknown(
            Reason.METRICS_UNCONFIGURED,
            "The operator was given no Prometheus (prometheus.url of its settings): the gates "
            "protect by themselves, and levers work.",
        )

    def close(self) -> None:
        """Do nothing."""
