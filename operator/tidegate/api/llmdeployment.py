"""The kind `LLMDeployment`, tidegate.io/v1alpha1."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError

from tidegate.api.engine_spec import BudgetSpec, EngineSpec, KVCacheSpec, WorkloadSpec
from tidegate.api.llmdeployment_status import LLMDeploymentStatus
from tidegate.api.model_spec import ModelSpec
from tidegate.api.pool_spec import Pools, RolloutSpec
from tidegate.api.wire import DNSLabel, Wire
from tidegate.errors import Invalid, Problem

GROUP = "tidegate.io"
VERSION = "v1alpha1"
KIND = "LLMDeployment"
PLURAL = "llmdeployments"


class LLMDeploymentSpec(Wire):
    """What the user asks for."""

    model: ModelSpec
    """The model and what is known of its shape."""
    engine: EngineSpec
    """The engine's image and limits."""
    kv_cache: KVCacheSpec = KVCacheSpec()
    """The KV cache's type, block size and transfer."""
    budget: BudgetSpec = BudgetSpec()
    """The division of each GPU's memory."""
    workload: WorkloadSpec | None = None
    """The requests that the sizing assumes."""
    pools: Pools
    """How many pods, on which nodes."""
    rollout: RolloutSpec = RolloutSpec()
    """How the pods of a new revision replace the old ones."""


class LLMDeployment(Wire):
    """One served model: sized, rendered, followed."""

    short_names: ClassVar[list[str]] = ["llmd"]
    categories: ClassVar[list[str]] = ["llm"]
    printer_columns: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Ready",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        },
        {"name": "Mode", "type": "string", "jsonPath": ".status.mode"},
        {"name": "Pods", "type": "string", "jsonPath": ".status.pods"},
        {"name": "KV-Tokens", "type": "integer", "jsonPath": ".status.kvTokens"},
        {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Model", "type": "string", "jsonPath": ".spec.model.id", "priority": 1},
        {
            "name": "Concurrency",
            "type": "integer",
            "jsonPath": ".status.plan[0].concurrentRequests.atMaxModelLen",
            "priority": 1,
        },
        {"name": "Revision", "type": "string", "jsonPath": ".status.revision", "priority": 1},
    ]

    api_version: Literal["tidegate.io/v1alpha1"]
    """tidegate.io/v1alpha1."""
    kind: Literal["LLMDeployment"]
    """LLMDeployment."""
    metadata: Annotated[dict[str, Any], Field(json_schema_extra={"type": "object"})]
    """Kubernetes' own metadata."""
    spec: LLMDeploymentSpec
    """What the user asks for."""
    status: LLMDeploymentStatus | None = None
    """What Tidegate saw and decided; written by the operator only."""


class Identity(Wire):
    """The part of the metadata that everything is named after."""

    name: DNSLabel
    """Name of the deployment: also of its Services, so a DNS label."""
    namespace: DNSLabel = "default"
    """Its namespace."""


def parse_spec(document: dict[str, Any]) -> LLMDeploymentSpec:
    """Read `spec` of a document of the kind; raise `Invalid` with every problem and its field."""
    try:
        return LLMDeploymentSpec.model_validate(document.get("spec") or {})
    except ValidationError as error:
        raise Invalid(problems(error, ("spec",))) from error


def parse(document: dict[str, Any]) -> LLMDeployment:
    """Read a whole document (a manifest); raise `Invalid` with every problem and its field."""
    found: list[Problem] = []
    try:
        identity = document.get("metadata") or {}
        Identity.model_validate({k: identity[k] for k in ("name", "namespace") if k in identity})
    except ValidationError as error:
        found += problems(error, ("metadata",))
    body = {key: value for key, value in document.items() if key != "status"}
    try:
        parsed = LLMDeployment.model_validate(body)
    except ValidationError as error:
        raise Invalid(found + problems(error)) from error
    if found:
        raise Invalid(found)
    return parsed


def problems(error: ValidationError, prefix: tuple[str, ...] = ()) -> list[Problem]:
    """Turn pydantic's errors into problems that name the field as the user wrote it."""
    return [
        Problem(_path((*prefix, *item["loc"])), _sentence(item))
        for item in error.errors(include_url=False)
    ]


def _path(location: tuple[str | int, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.lstrip(".") or "document"


def _sentence(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "unknown field; remove it or correct its spelling"
    if item["type"] == "missing":
        return "required field is missing"
    message: str = item["msg"].removeprefix("Value error, ")
    return message[0].lower() + message[1:]
