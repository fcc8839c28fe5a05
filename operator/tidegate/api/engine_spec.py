"""`spec.engine`, `spec.kvCache` and `spec.budget`: how vLLM is run and sized."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tidegate.api import text
from tidegate.api.freeform import FreeForm
from tidegate.api.model_spec import KeyRef, ModelPath
from tidegate.api.rules import matches, rule, rules
from tidegate.api.unique import unique
from tidegate.api.wire import Bytes, DNSName, WholeSeconds, Wire

MAX_TOKENS = 2**24
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Argument = Annotated[str, Field(min_length=1, max_length=4096, pattern=text.PROSE.pattern)]

_NEEDS_MODEL = "methods eagle, eagle3 and draft_model need `model`, the draft; set it"
_TAKES_NO_MODEL = "methods ngram and mtp take no draft; remove `model` and `config`"
_ONE_VALUE = "set value or secretKeyRef, one of them"


class Speculative(Wire):
    """Speculative decoding: a cheap draft proposes tokens that the model checks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.method in ['ngram', 'mtp'] || has(self.model)", _NEEDS_MODEL),
            rule(
                "!(self.method in ['ngram', 'mtp']) || (!has(self.model) && !has(self.config))",
                _TAKES_NO_MODEL,
            ),
        )
    )

    method: Literal["ngram", "eagle", "eagle3", "mtp", "draft_model"]
    """How the draft is made."""
    model: ModelPath | None = None
    """The draft's model string, for eagle, eagle3 and draft_model."""
    tokens: Annotated[int, Field(ge=1, le=16)]
    """Tokens proposed for each step."""
    config: FreeForm | None = None
    """The draft's config.json, when the catalogue does not know it."""

    @model_validator(mode="after")
    def _draft(self) -> "Speculative":
        has_draft = self.method in ("eagle", "eagle3", "draft_model")
        if has_draft and self.model is None:
            raise ValueError(_NEEDS_MODEL)
        if not has_draft and (self.model is not None or self.config is not None):
            raise ValueError(_TAKES_NO_MODEL)
        return self


class EnvVar(Wire):
    """One environment variable of the engine's container."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("has(self.value) != has(self.secretKeyRef)", _ONE_VALUE))
    )

    name: Annotated[str, Field(max_length=128, pattern=text.ENV_NAME.pattern)]
    """Name of the variable; those that Tidegate sets itself are refused."""
    value: Annotated[str, Field(max_length=8192, pattern=text.PROSE.pattern)] | None = None
    """Its value."""
    secret_key_ref: KeyRef | None = None
    """A Secret key that holds its value."""

    @model_validator(mode="after")
    def _one_value(self) -> "EnvVar":
        if (self.value is None) == (self.secret_key_ref is None):
            raise ValueError(_ONE_VALUE)
        return self


class EngineSpec(Wire):
    """The engine's image and the limits that it runs under."""

    image: Annotated[str, Field(min_length=1, max_length=512, pattern=text.IMAGE.pattern)]
    """Container image of vLLM, with the entry point of the official one (`vllm serve`)."""
    version: Annotated[str, Field(max_length=32, pattern=text.VERSION.pattern)] | None = None
    """vLLM's version, where the image's tag does not tell it."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the image is pulled."""
    image_pull_secrets: Annotated[
        list[DNSName],
        Field(max_length=8, json_schema_extra={"x-kubernetes-list-type": "set"}),
        unique(),
    ] = []
    """Names of Secrets for a private registry."""
    max_model_len: Tokens | None = None
    """Longest sequence in tokens, prompt and output together; the model's own limit when absent."""
    max_num_seqs: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Sequences in one step; from the budget and the engine's default when absent."""
    max_num_batched_tokens: Tokens | None = None
    """Tokens in one step; the engine's default for the GPU when absent."""
    long_prefill_token_threshold: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    """Prompts above this many tokens are cut into chunks of at most this size."""
    chunked_prefill: bool = True
    """Cut prompts into chunks that share steps with decodes."""
    attention_backend: Annotated[str, Field(max_length=64, pattern=text.BACKEND.pattern)] | None = (
        None
    )
    """The engine's attention backend; its own choice when absent."""
    prefix_caching: bool = True
    """Keep the KV of finished prompts for later requests with the same start."""
    enforce_eager: bool = False
    """Run without CUDA graphs: less memory, slower decode."""
    speculative: Speculative | None = None
    """Speculative decoding; off when absent."""
    extra_args: Annotated[list[Argument], Field(max_length=64)] = []
    """Further engine flags; refused where they repeat or fight one that a field owns."""
    env: Annotated[
        list[EnvVar],
        Field(
            max_length=64,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
        unique("name"),
    ] = []
    """Further environment variables."""


_LEAST_LEASE_SECONDS = 6
"""The engine renews a lease six times within its length, in whole seconds."""
_LEASE_TOO_SHORT = f"lease must be at least {_LEAST_LEASE_SECONDS}s"


class Transfer(Wire):
    """How a prefill pod hands its KV to a decode pod."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.lease) || !{matches('self.lease', text.WHOLE_SECONDS.pattern)} || "
                f"duration(self.lease) >= duration('{_LEAST_LEASE_SECONDS}s')",
                _LEASE_TOO_SHORT,
            )
        )
    )

    connector: Literal["Nixl"] = "Nixl"
    """The engine's KV connector."""
    bandwidth: Bytes = 25 * 2**30
    """Bytes per second between the pools; used for the estimate of the transfer time."""
    lease: WholeSeconds = 30.0
    """How long a prefill pod keeps the KV of a prompt that nobody fetches, in whole seconds."""
    failure_policy: Literal["recompute", "fail"] = "recompute"
    """What a decode pod does when the transfer fails: compute the prompt itself, or answer 500."""

    @model_validator(mode="after")
    def _long_enough(self) -> "Transfer":
        if self.lease < _LEAST_LEASE_SECONDS:
            raise ValueError(_LEASE_TOO_SHORT)
        return self


class Offload(Wire):
    """Where KV goes that the GPUs have no room for: it is read back instead of computed again."""

    cpu: Bytes
    """Host memory for KV, of each pod: all its GPUs together."""


class KVCacheSpec(Wire):
    """The KV cache's element type, block size, offload and transfer."""

    dtype: Annotated[str, Field(max_length=32, pattern=text.KV_DTYPE.pattern)] = "auto"
    """auto, bf16, fp16, fp8, int8, int4, nvfp4, k8v4 or a name of the engine's own."""
    block_size: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Tokens in a block; the engine's own choice when absent."""
    skip_layers: Annotated[
        list[Annotated[int, Field(ge=0, le=4095)]],
        Field(max_length=512, json_schema_extra={"x-kubernetes-list-type": "set"}),
        unique(),
    ] = []
    """Layers whose KV keeps the model's type."""
    offload: Offload | None = None
    """A second tier in host memory; none when absent."""
    transfer: Transfer = Transfer()
    """Used when there are prefill and decode pools."""


class BudgetSpec(Wire):
    """The division of each GPU's memory."""

    safety_line: Annotated[float, Field(gt=0, le=0.98)] = 0.90
    """The share of the card that may be planned, from 0 to 1."""
    activations: Bytes | None = None
    """Peak of activations, where it was measured."""
    kv_cache: Bytes | None = None
    """A ceiling for the KV cache of each GPU; the engine then gets exactly this."""
