"""`spec.overload`: when a deployment counts as overloaded, and what is done then."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tidegate.api import text
from tidegate.api.instant import Instant
from tidegate.api.rules import matches, rule, rules, takes_time
from tidegate.api.unique import unique
from tidegate.api.wire import DNSLabel, Percent, Seconds, Text, Wire

Usage = Annotated[float, Field(gt=0, le=1)]
Action = Literal["Shift", "Shed"]
LONGEST_NAME = 512
"""Characters of a user's name that are kept: a service account's has up to 333."""

_EXIT_BELOW_ENTER = (
    "exit must be below enter (exit is {default} where it is not set): the distance is what keeps "
    "the loop from switching to and fro"
)
_USAGE_EXIT = _EXIT_BELOW_ENTER.format(default="0.8")
_BACKLOG_EXIT = _EXIT_BELOW_ENTER.format(default="1s")
_NO_EXIT = "exit must be more than 0s: a pool is never under 0s, so the loop would never let go"
_PERCENT_NEEDED = "percent is needed with Shed and Shift; with Open remove it"
_TO_IS_FOR_SHIFT = "to goes with action Shift only; remove it"
_NO_REASON = "reason must say why, for those who come later"
_NO_TARGET = (
    "override.action Shift needs a deployment to shift to: set override.to, or overload.shift.to"
)


class UsageThreshold(Wire):
    """Use of the KV cache of a pool's fullest pod, 0 to 1."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("!has(self.enter) || !has(self.exit) || self.exit < self.enter", _USAGE_EXIT)
        )
    )

    enter: Usage = 0.90
    """Overloaded from here."""
    exit: Usage = 0.80
    """No longer overloaded below this."""

    @model_validator(mode="after")
    def _exit_is_below(self) -> "UsageThreshold":
        if self.exit >= self.enter:
            raise ValueError(_USAGE_EXIT)
        return self


class BacklogThreshold(Wire):
    """Seconds that waiting prompt tokens need at the pool's speed of prefill."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.enter) || !has(self.exit) || "
                f"!{matches('self.enter', text.DURATION.pattern)} || "
                f"!{matches('self.exit', text.DURATION.pattern)} || "
                "duration(self.exit) < duration(self.enter)",
                _BACKLOG_EXIT,
            ),
            rule(takes_time("exit"), _NO_EXIT),
        )
    )

    enter: Seconds = 2.0
    """Overloaded from here."""
    exit: Seconds = 1.0
    """No longer overloaded below this."""

    @model_validator(mode="after")
    def _exit_is_below(self) -> "BacklogThreshold":
        if self.exit >= self.enter:
            raise ValueError(_BACKLOG_EXIT)
        if self.exit == 0:
            raise ValueError(_NO_EXIT)
        return self


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

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.percent) == (self.action != 'Open')", _PERCENT_NEEDED),
            rule("!has(self.to) || self.action == 'Shift'", _TO_IS_FOR_SHIFT),
            rule(r"self.reason.matches(r'[^\s]')", _NO_REASON),
        )
    )

    action: Literal["Shed", "Shift", "Open"]
    """Turn requests away, send them elsewhere, or let all in whatever the signals say."""
    percent: Percent | None = None
    """Share of the requests, a whole percent from 1 to 100; not with Open."""
    to: DNSLabel | None = None
    """Where to shift; spec.overload.shift.to by default."""
    until: Instant
    """When it lapses; a time far ahead is warned of, not refused, for it can be meant."""
    reason: Annotated[Text, Field(max_length=256)]
    """Why, for those who come later."""
    set_by: Annotated[Text, Field(max_length=LONGEST_NAME)] | None = None
    """Who set it: filled in by the webhook from the request, whatever is written here."""

    @model_validator(mode="after")
    def _action_has_what_it_needs(self) -> "OverrideSpec":
        if (self.percent is None) != (self.action == "Open"):
            raise ValueError(_PERCENT_NEEDED)
        if self.to is not None and self.action != "Shift":
            raise ValueError(_TO_IS_FOR_SHIFT)
        if not self.reason.strip():
            raise ValueError(_NO_REASON)
        return self


class OverloadSpec(Wire):
    """When the deployment counts as overloaded, and what is done then."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.override) || self.override.action != 'Shift' || "
                "has(self.override.to) || has(self.shift)",
                _NO_TARGET,
            )
        )
    )

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
    actions: Annotated[
        list[Action],
        Field(max_length=2, json_schema_extra={"x-kubernetes-list-type": "set"}),
        unique(),
    ] = ["Shift", "Shed"]
    """What may be done, in this order; nothing with an empty list."""
    shift: ShiftSpec | None = None
    """Where requests may be shifted; nowhere by default."""
    shed: ShedSpec = ShedSpec()
    """How many requests may be turned away."""
    override: OverrideSpec | None = None
    """The lever of the one on call; `kubectl tidegate shed, shift, open` set it."""

    @model_validator(mode="after")
    def _override_has_a_target(self) -> "OverloadSpec":
        lever = self.override
        if lever and lever.action == "Shift" and not (lever.to or self.shift):
            raise ValueError(_NO_TARGET)
        return self

    def targets(self) -> dict[str, str]:
        """Return the deployments that requests may be shifted to, by the field that names each."""
        named = {
            "shift.to": self.shift.to if self.shift else None,
            "override.to": self.override.to if self.override else None,
        }
        return {field: name for field, name in named.items() if name is not None}
