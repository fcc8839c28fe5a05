"""`spec.workload` and `spec.slo`: the requests that are expected, and how fast they are served."""

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from tidegate.api.engine_spec import Tokens
from tidegate.api.rules import rule, rules, takes_time
from tidegate.api.wire import Seconds, Wire

_PREFIX_IN_PROMPT = (
    "sharedPrefixTokens must be below promptTokens.p95, and not above promptTokens.mean: it is a "
    "part of every prompt"
)
_NO_SECONDS = "an objective must be more than 0s"


class TokenLength(Wire):
    """A length in tokens: what is usual, and what is long."""

    mean: Tokens | None = None
    """The mean."""
    p95: Tokens
    """The 95th percentile."""


class WorkloadSpec(Wire):
    """The requests that the sizing assumes; without it, every request has maxModelLen tokens."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.sharedPrefixTokens) || "
                "(self.sharedPrefixTokens < self.promptTokens.p95 && "
                "(!has(self.promptTokens.mean) || "
                "self.sharedPrefixTokens <= self.promptTokens.mean))",
                _PREFIX_IN_PROMPT,
            )
        )
    )

    prompt_tokens: TokenLength
    """Length of prompts."""
    output_tokens: TokenLength
    """Length of answers."""
    shared_prefix_tokens: Tokens | None = None
    """Tokens with which every prompt begins, such as a system prompt: their KV is kept once."""
    peak_requests_per_second: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Requests that arrive each second at the peak, of all pods together."""

    @model_validator(mode="after")
    def _prefix_is_in_every_prompt(self) -> "WorkloadSpec":
        shared, prompt = self.shared_prefix_tokens, self.prompt_tokens
        if shared is None:
            return self
        if shared >= prompt.p95 or (prompt.mean is not None and shared > prompt.mean):
            raise ValueError(_PREFIX_IN_PROMPT)
        return self


class SLOSpec(Wire):
    """What the service promises; plans and warnings are judged by it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"{takes_time('timeToFirstToken')} && {takes_time('timePerOutputToken')}",
                _NO_SECONDS,
            )
        )
    )

    time_to_first_token: Seconds | None = None
    """From a request's arrival to its first token (TTFT)."""
    time_per_output_token: Seconds | None = None
    """Between two tokens of an answer (TPOT)."""

    @model_validator(mode="after")
    def _takes_time(self) -> "SLOSpec":
        if 0 in (self.time_to_first_token, self.time_per_output_token):
            raise ValueError(_NO_SECONDS)
        return self
