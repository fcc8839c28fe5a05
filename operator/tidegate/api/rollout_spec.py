"""`spec.rollout`: how the pods of a new revision replace the old ones, and who judges it."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tidegate.api import text
from tidegate.api.rules import rule, rules
from tidegate.api.wire import DNSLabel, IntOrPercent, Seconds, WholeSeconds, Wire

Strategy = Literal["Canary", "RollingUpdate", "Recreate"]
CommandAction = Literal["Promote", "Abort", "Retry"]

Worse = Annotated[float, Field(gt=0, le=1000)]

_NO_WAY_TO_ROLL = "maxSurge and maxUnavailable can't both be 0; set one of them to 1 or more"
_ONE_WAY_TO_WAIT = "a step needs either pause or analysis"
_STEPS_RISE = "the weights of steps must not fall"


class CanaryStep(Wire):
    """One step of a canary: its share of the requests, and what must pass before the next."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("has(self.pause) != has(self.analysis)", _ONE_WAY_TO_WAIT))
    )

    weight: Annotated[int, Field(ge=1, le=99)]
    """Share of the requests in percent; all of them follow when the last step has passed."""
    pause: WholeSeconds | None = None
    """Wait so long without judging."""
    analysis: WholeSeconds | None = None
    """Judge the new revision for at least so long, from its first request after `warmUp`."""

    @model_validator(mode="after")
    def _waits_in_one_way(self) -> "CanaryStep":
        if (self.pause is None) == (self.analysis is None):
            raise ValueError(_ONE_WAY_TO_WAIT)
        return self

    @property
    def seconds(self) -> float:
        """How long the step lasts at least."""
        return self.pause if self.pause is not None else self.analysis or 0.0


class AnalysisBounds(Wire):
    """How much worse than the old revision the new one may be; `spec.slo` bounds it, too."""

    min_samples: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Requests of each side below which a metric is no evidence; 50 to 200 by metric by default.

    Failures and restarts beyond chance count before.
    """
    time_to_first_token: Worse = 20.0
    """TTFT (p50 and p95) longer by so many percent must be caught."""
    time_per_output_token: Worse = 10.0
    """TPOT (p50 and p95) longer by so many percent must be caught."""
    survival: Annotated[float, Field(gt=0, le=100)] = 2.0
    """Points by which the share of admitted requests that end well may not fall."""
    refusals: Worse = 50.0
    """Requests that engines refuse (4xx), more by so many percent per request, must be caught."""
    abandonments: Worse = 50.0
    """Requests whose clients leave before the first byte, more by so many percent per request."""
    restarts: Worse = 100.0
    """Engines that end by themselves, more by so many percent per request, must be caught."""
    preemptions: Worse = 80.0
    """Preemptions, more by so many percent per request, must be caught."""
    kv_drift: Worse = 10.0
    """Percent by which the KV cache may be below the plan, where the old revision's is not."""
    memory_growth: Worse = 6.0
    """Growth of a pod's memory in percent per hour, above that of the old pods, must be caught."""


class RolloutCommand(Wire):
    """What a person says of one revision; it does nothing once another one is rolled out."""

    action: CommandAction
    """Take it without further steps, take it back, or try it once more."""
    revision: Annotated[DNSLabel, Field(max_length=32)]
    """The revision that is meant: `status.rollout.canary`."""
    token: Annotated[str, Field(min_length=1, max_length=64, pattern=text.DATA_KEY.pattern)]
    """Any text of one's own; a command with the token of the last one is not carried out again."""


class RolloutSpec(Wire):
    """How the pods of a new revision replace the old ones."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(  # with has(): the API server runs it on the empty default, too
                "(has(self.strategy) && self.strategy == 'Recreate') || "
                "!has(self.maxSurge) || !has(self.maxUnavailable) || "
                "(self.maxSurge != 0 && self.maxSurge != '0%') || "
                "(self.maxUnavailable != 0 && self.maxUnavailable != '0%')",
                _NO_WAY_TO_ROLL,
            ),
            rule("!has(self.steps) || self.steps.map(s, s.weight).isSorted()", _STEPS_RISE),
        )
    )

    strategy: Strategy | None = None
    """A judged canary, side by side without a judge, or all old pods first.

    By default Canary where the operator has a Prometheus, the gate is on and every pool has two
    replicas or more; else RollingUpdate.
    """
    max_surge: IntOrPercent = 1
    """Pods of a pool above its replicas while a revision rolls out, where GPUs are free."""
    max_unavailable: IntOrPercent = 1
    """Ready pods of a pool that may be missing while old ones give way for want of free GPUs."""
    progress_deadline: WholeSeconds = 3600.0
    """Time without any progress after which the rollout counts as stalled."""
    steps: Annotated[list[CanaryStep], Field(min_length=1, max_length=16)] = [
        CanaryStep.model_validate({"weight": weight, "analysis": "10m"}) for weight in (5, 25, 50)
    ]
    """The way of a canary, weights rising."""
    baseline: bool = False
    """Compare the new revision with as many fresh pods of the old one, instead of with all of it.

    They come with the canary's, get the same share, and go when its analysis ends. Off by default:
    they take GPUs of `gpuBudget`, or the place of old pods.
    """
    gpu_budget: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """GPUs that a rollout may take beside those of all replicas; 0 takes from the old pods.

    By default those of the pods that maxSurge allows.
    """
    deadline: WholeSeconds = 3600.0
    """Time that a step may take above its own: for pods, for traffic and for a verdict."""
    warm_up: Seconds = 60.0
    """Left out of the judgement: the first requests of new pods meet cold caches and compile."""
    on_inconclusive: Literal["Pause", "Abort"] = "Pause"
    """What to do at the deadline of a step that was neither passed nor failed."""
    keep_failed_for: Seconds = 600.0
    """How long pods of a failed revision stay to be looked at, within gpuBudget."""
    bounds: AnalysisBounds = AnalysisBounds()
    """How much worse the new revision may be."""
    paused: bool = False
    """Stay at the step that is reached; a failure still takes the new revision back."""
    command: RolloutCommand | None = None
    """What a person says: `kubectl tidegate promote, abort, retry` set it."""

    @model_validator(mode="after")
    def _can_roll(self) -> "RolloutSpec":
        stuck = self.max_surge in (0, "0%") and self.max_unavailable in (0, "0%")
        if stuck and self.strategy != "Recreate":
            raise ValueError(_NO_WAY_TO_ROLL)
        weights = [step.weight for step in self.steps]
        if weights != sorted(weights):
            raise ValueError(_STEPS_RISE)
        return self
