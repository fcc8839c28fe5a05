"""`status.overload`: what the slow loop decided, when and why."""

from typing import Annotated, Literal

from pydantic import Field

from tidegate.api.wire import Wire

Line = Annotated[str, Field(max_length=1024)]
Name = Annotated[str, Field(max_length=253)]
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
Duration = Annotated[str, Field(max_length=32)]
Share = Annotated[int, Field(ge=0, le=100)]


class OverrideStatus(Wire):
    """The lever that holds instead of the loop, or is refused."""

    action: Name
    """Shed, Shift or Open."""
    until: Time
    """When it lapses."""
    reason: Annotated[str, Field(max_length=256)]
    """Why it was set."""
    set_by: Annotated[str, Field(max_length=512)] = ""
    """Who set it, as the webhook saw; empty where there is no webhook."""
    refused: Line | None = None
    """Why it cannot be carried out, so that the loop decides; absent where it holds."""


class ReactionStatus(Wire):
    """How fast the loop can be, beside how fast the KV cache can fill."""

    floor: Duration
    """From a change in an engine to a share that holds at the gates: the least that is possible."""
    fill_time: Duration | None = None
    """From `kvUsage.enter` to full at the plan's full speed of prefill; absent when unknown."""
    message: Line
    """How both were obtained, and what protects where the loop is the slower one."""


class OverloadStatus(Wire):
    """What holds since the last change; nothing here changes while nothing happens."""

    summary: Annotated[str, Field(max_length=128)]
    """State and shares in a few words, for the printer column."""
    state: Literal["Normal", "Overloaded", "Override"]
    """Within the thresholds, over one of them, or held by a person's lever."""
    shed_percent: Share
    """Share of the requests that gates turn away."""
    shift_percent: Share
    """Share of the requests that another deployment serves."""
    shift_to: Annotated[str, Field(max_length=63)] | None = None
    """That deployment."""
    reason: Annotated[str, Field(max_length=128)]
    """A documented constant."""
    message: Line
    """A sentence with the numbers that led to it."""
    because: Annotated[list[Line], Field(max_length=16)] = []
    """The steps of the reasoning, a sentence each."""
    signal: Name | None = None
    """The signal that decided, by its name in spec.overload."""
    pool: Literal["unified", "prefill", "decode"] | None = None
    """The pool that it is of."""
    value: Annotated[str, Field(max_length=32)] | None = None
    """Its value when this was decided: a share of 1, or seconds."""
    metric_age: Duration | None = None
    """How old the sample was then."""
    since: Time | None = None
    """When the state began."""
    changed_at: Time | None = None
    """When a share changed last."""
    until: Time | None = None
    """When the shares lapse at the gates unless the operator renews them."""
    override: OverrideStatus | None = None
    """The lever that holds or is refused, if there is one."""
    reaction: ReactionStatus | None = None
    """How fast the loop can be; absent until a plan and the scrape interval are known."""
