"""`spec.model`: which weights are served, where they come from, and what is known of them."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tidegate.api.wire import Bytes, DNSName, SecretKey, Text, Wire

ModelPath = Annotated[Text, Field(max_length=512)]


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
    path: Annotated[str, Field(max_length=512, pattern=r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$")]
    """Folder of the model inside of the volume."""

    @model_validator(mode="after")
    def _stay_inside(self) -> "PersistentVolumeClaim":
        if ".." in self.path.split("/"):
            raise ValueError("path must not contain ..")
        return self


class ModelSource(Wire):
    """Where the model's files are; at most one block."""

    hugging_face: HuggingFace | None = None
    """The hub with a token; without any source the hub is used without one."""
    persistent_volume_claim: PersistentVolumeClaim | None = None
    """A claim in the deployment's namespace."""

    @model_validator(mode="after")
    def _at_most_one(self) -> "ModelSource":
        if self.hugging_face and self.persistent_volume_claim:
            raise ValueError("set huggingFace or persistentVolumeClaim, not both")
        return self


class Weights(Wire):
    """What the weights are made of."""

    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """The engine's --dtype; auto takes the model's own."""
    quantization: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9_-]+$")] | None = None
    """The engine's --quantization, for example fp8; without it the checkpoint decides."""
    bytes: Bytes | None = None
    """Size of the whole checkpoint, where the estimate is to be overridden."""


class ModelSpec(Wire):
    """The model and what is known of its shape."""

    id: ModelPath
    """The engine's model string: a hub id or a path in the image; the same on prefill and decode."""
    revision: Annotated[Text, Field(max_length=128)] | None = None
    """Branch, tag or commit on the hub."""
    served_names: Annotated[list[Annotated[Text, Field(max_length=256)]], Field(max_length=16)] = []
    """Names under which clients ask for the model; the id when empty."""
    source: ModelSource | None = None
    """Where the files come from."""
    config: Annotated[
        dict[str, Any] | None,
        Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}),
    ] = None
    """The model's config.json, when the catalogue does not know the id."""
    config_ref: KeyRef | None = None
    """A ConfigMap key that holds the model's config.json."""
    weights: Weights = Weights()
    """What the weights are made of."""

    @model_validator(mode="after")
    def _one_config(self) -> "ModelSpec":
        if self.config is not None and self.config_ref is not None:
            raise ValueError("set config or configRef, not both")
        return self
