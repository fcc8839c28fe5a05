"""`spec.model`: which weights are served, where they come from, and what is known of them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from tidegate.api import text
from tidegate.api.freeform import FreeForm
from tidegate.api.rules import rule, rules
from tidegate.api.unique import unique
from tidegate.api.wire import Bytes, DNSName, Name, SecretKey, Wire

ModelPath = Annotated[Name, Field(max_length=512)]
_ONE_SOURCE = "set huggingFace or persistentVolumeClaim, not both"
_ONE_CONFIG = "set config or configRef, not both"
_ONE_SIZE = "set bytes or indexRef, not both"


class KeyRef(Wire):
    """One key of a Secret or a ConfigMap in the deployment's own namespace."""

    name: DNSName
    """Name of the object."""
    key: SecretKey
    """Key inside of it."""


class HuggingFace(Wire):
    """The Hugging Face hub, with a token for gated models."""

    token_secret_ref: KeyRef
    """Secret key that holds the hub token; the engine gets it as HF_TOKEN."""


class PersistentVolumeClaim(Wire):
    """A claim that holds the model's files; mounted read-only at /models."""

    claim_name: DNSName
    """Name of the claim."""
    path: Annotated[str, Field(max_length=512, pattern=text.MODEL_FOLDER.pattern)]
    """Folder of the model inside of the volume."""


class ModelSource(Wire):
    """Where the model's files are; at most one block."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("!has(self.huggingFace) || !has(self.persistentVolumeClaim)", _ONE_SOURCE)
        )
    )

    hugging_face: HuggingFace | None = None
    """The hub with a token; without any source the hub is used without one."""
    persistent_volume_claim: PersistentVolumeClaim | None = None
    """A claim in the deployment's namespace."""

    @model_validator(mode="after")
    def _at_most_one(self) -> "ModelSource":
        if self.hugging_face and self.persistent_volume_claim:
            raise ValueError(_ONE_SOURCE)
        return self


class Weights(Wire):
    """What the weights are made of."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!has(self.bytes) || !has(self.indexRef)", _ONE_SIZE))
    )

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """The engine's --dtype; auto takes the model's own."""
    quantization: Annotated[str, Field(max_length=64, pattern=text.QUANTIZATION.pattern)] | None = (
        None
    )
    """The engine's --quantization, for example fp8; without it the checkpoint decides."""
    bytes: Bytes | None = None
    """Size of the whole checkpoint, where the estimate is to be overridden."""
    index_ref: KeyRef | None = None
    """A ConfigMap key that holds the checkpoint's model.safetensors.index.json, or the JSON header
    of its safetensors file: weights are then counted rather than estimated."""

    @model_validator(mode="after")
    def _one_size(self) -> "Weights":
        if self.bytes is not None and self.index_ref is not None:
            raise ValueError(_ONE_SIZE)
        return self


class ModelSpec(Wire):
    """The model and what is known of its shape."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!has(self.config) || !has(self.configRef)", _ONE_CONFIG))
    )

    id: ModelPath
    """The engine's model string: a hub id or a path in the image; all pools get the same."""
    revision: Annotated[Name, Field(max_length=128)] | None = None
    """Branch, tag or commit on the hub."""
    served_names: Annotated[
        list[Annotated[Name, Field(max_length=256)]],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
        unique(),
    ] = []
    """Names under which clients ask for the model; the id when empty."""
    source: ModelSource | None = None
    """Where the files come from."""
    config: FreeForm | None = None
    """The model's config.json, when the catalogue does not know the id."""
    config_ref: KeyRef | None = None
    """A ConfigMap key that holds the model's config.json."""
    weights: Weights = Weights()
    """What the weights are made of."""

    @model_validator(mode="after")
    def _one_config(self) -> "ModelSpec":
        if self.config is not None and self.config_ref is not None:
            raise ValueError(_ONE_CONFIG)
        return self
