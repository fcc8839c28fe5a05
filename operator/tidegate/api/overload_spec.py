"""`spec.overload`: when a deployment counts as overloaded, and what is done then."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from tidegate.api.wire import DNSLabel, Percent, Seconds, Text, Wire

Usage = Annotated[float, Field(gt=0, le=1)]
Action = Literal["Shift", "Shed"]
Instant = Annotated[AwareDatetime, Field(strict=False)]


class UsageThreshold(Wire):
    """Use of the KV cache of a pool's fullest pod, 0 to 1."""

    enter: Usage = 0.90
    """Overloaded from here."""
    exit: Usage = 0.80
    """No longer overloaded below this."""


class BacklogThreshold(Wire):
    """Seconds that waiting prompt tokens need at the pool's speed of prefill."""

    enter: Seconds = 2.0
    """Overloaded from here."""
    exit: Seconds = 1.0
    """No longer overloaded below this."""


class ShiftSpec(Wire):
    """Requests that another deployment serves."""

    to: DNSLabel
    """An LLMDeployment of the same namespace that serves the same model."""
    max_percent: Percent = 50.0
    """Share of the requests at most."""


class ShedSpec(Wire):
    """Requests that are turned away."""

    max_percent: Percent = 95.0
    """Share of the requests at most."""
    floor: Annotated[int, Field(ge=0, le=9)] = 9
    """Classes from this one up are never shed by the loop; 9 is the top one."""


class OverrideSpec(Wire):
    """A person's lever: it holds instead of the loop until it lapses."""

    action: Literal["Shed", "Shift", "Open"]
    """Turn requests away, send them elsewhere, or let all in whatever the signals say."""
    percent: Percent | None = None
    """Share of the requests; not with Open."""
    to: DNSLabel | None = None
    """Where to shift; spec.overload.shift.to by default."""
    until: Instant
    """When it lapses."""
    reason: Annotated[Text, Field(max_length=256)]
    """Why, for those who come later."""
    set_by: Annotated[Text, Field(max_length=256)] | None = None
    """Who set it: filled in by the webhook from the request, whatever is written here."""


class OverloadSpec(Wire):
    """When the deployment counts as overloaded, and what is done then."""

    kv_usage: UsageThreshold = UsageThreshold()
    """Decode and unified pools: how full the fullest pod's KV cache is."""
    prefill_backlog: BacklogThreshold = BacklogThreshold()
    """Prefill and unified pools: how long the prompts that wait will take."""
    enter_after: Seconds = 10.0
    """How long a signal must be over `enter`."""
    exit_after: Seconds = 60.0
    """How long all signals must be under `exit`."""
    on_missing_metrics: Literal["Hold", "StaticCap"] = "Hold"
    """Without data: keep the last shares for `holdFor`, or at once none but the gate's own cap."""
    hold_for: Seconds = 300.0
    """How long the last shares are kept without data; then the gate's own cap alone protects."""
    actions: Annotated[list[Action], Field(max_length=2)] = ["Shift", "Shed"]
    """What may be done, in this order; nothing with an empty list."""
    shift: ShiftSpec | None = None
    """Where requests may be shifted; nowhere by default."""
    shed: ShedSpec = ShedSpec()
    """How many requests may be turned away."""
    override: OverrideSpec | None = None
    """The lever of the one on call; `kubectl tidegate shed, shift, open` set it."""
