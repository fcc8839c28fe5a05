"""What `tidegate status` tells of a canary: its step and clock, and what was measured of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tidegate.api import llmdeployment
from tidegate.api.rollout_status import RolloutStatus
from tidegate.cli.cluster.access import Cluster
from tidegate.cli.cluster.denied import Denied
from tidegate.core import names
from tidegate.core.canary import history, policy, record, tell
from tidegate.core.canary.history import Looks
from tidegate.core.canary.policy import Policy
from tidegate.core.canary.state import Phase, State
from tidegate.core.status.conditions import format_time
from tidegate.errors import Invalid


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
        step = self.policy.steps[min(self.state.step, len(self.policy.steps) - 1)]
        return self.state.since + self.policy.longest_seconds(step)

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
    resource: Mapping[str, Any], stored: history.Decoded | None, silence: str = ""
) -> Canary | None:
    """Return the canary of a resource, None without one; `stored` is what its history has."""
    state = _state((resource.get("status") or {}).get("rollout"))
    if state is None or state.canary is None:
        return None
    looks = history.of_rollout(stored.looks, state.canary, state.stable) if stored else ()
    return Canary(state, _policy(resource), looks, silence)


async def ask(cluster: Cluster, resource: Mapping[str, Any]) -> Canary | None:
    """Return the canary with its history; one that may not be read leaves the rest as it is."""
    found = of(resource, None)
    if found is None:
        return None
    name = names.rollout_history_name(str(resource["metadata"]["name"]))
    try:
        stored = await cluster.get(f"/api/v1/namespaces/{cluster.namespace}/configmaps/{name}")
    except Denied as error:
        return of(resource, None, str(error))
    return of(resource, history.decode((stored or {}).get("data")))


def _state(told: object) -> State | None:
    """Return the state that a status tells; None where this version cannot read it."""
    try:
        return record.from_status(RolloutStatus.model_validate(told)) if told else None
    except ValidationError:
        return None


def _policy(resource: Mapping[str, Any]) -> Policy | None:
    try:
        return policy.of(llmdeployment.parse_spec(dict(resource)), can_judge=True)
    except Invalid:
        return None
