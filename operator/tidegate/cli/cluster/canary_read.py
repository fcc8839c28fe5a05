"""What `tidegate status` tells of a canary: its step and clock, and what was measured of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.cli.cluster.access import Cluster
from tidegate.cli.cluster.denied import Denied
from tidegate.core import names
from tidegate.core.canary import history, stored, tell
from tidegate.core.canary.history import Looks
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import Phase, State
from tidegate.core.status.conditions import format_time


@dataclass(frozen=True)
class Canary:
    """A revision that is tried or was taken back; `policy` is None where the spec cannot be read.

    `looks` are those at this rollout, the newest last; `silence` says why they could not be read.
    """

    state: State
    policy: Policy | None
    looks: Looks = ()
    silence: str = ""

    @property
    def deadline_at(self) -> float | None:
        """When the step has taken too long; None where no clock runs."""
        is_running = self.state.phase is Phase.CANARY and self.state.paused_since is None
        if self.policy is None or not is_running:
            return None
        longest = self.policy.longest_seconds(self.policy.at(self.state.step))
        return self.state.since + longest

    @property
    def weight_percent(self) -> int | None:
        """The canary's share of the requests."""
        if self.policy is None or self.state.phase is not Phase.CANARY:
            return None
        return tell.weight_percent(self.state, self.policy)

    def document(self) -> dict[str, Any]:
        """Return it as `--output json` shows it."""
        deadline = self.deadline_at
        return {
            "revision": self.state.canary,
            "stable": self.state.stable,
            "phase": self.state.phase.value,
            "step": self.state.step + 1,
            "steps": len(self.policy.steps) if self.policy else None,
            "weightPercent": self.weight_percent,
            "since": format_time(self.state.since),
            "deadlineAt": None if deadline is None else format_time(deadline),
            "looks": [look.wire() for look in self.looks],
            "historyError": self.silence or None,
        }


def of(
    resource: Mapping[str, Any], kept: history.Decoded | None, silence: str = ""
) -> Canary | None:
    """Return the canary of a resource, None without one; `kept` is what its history has."""
    state = stored.state(resource)
    if state is None or state.canary is None:
        return None
    looks = history.of_rollout(kept.looks, state.canary, state.stable) if kept else ()
    return Canary(state, stored.wishes(resource), looks, silence)


async def ask(cluster: Cluster, resource: Mapping[str, Any]) -> Canary | None:
    """Return the canary with its history; one that may not be read leaves the rest as it is."""
    found = of(resource, None)
    if found is None:
        return None
    name = names.rollout_history_name(str(resource["metadata"]["name"]))
    try:
        kept = await cluster.get(f"/api/v1/namespaces/{cluster.namespace}/configmaps/{name}")
    except Denied as error:
        return of(resource, None, str(error))
    return of(resource, history.decode((kept or {}).get("data")))
