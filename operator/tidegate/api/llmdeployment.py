"""The kind `LLMDeployment`, tidegate.io/v1alpha1."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, ValidationError

from tidegate.api import text
from tidegate.api.engine_spec import BudgetSpec, EngineSpec, KVCacheSpec
from tidegate.api.gate_spec import GateSpec
from tidegate.api.llmdeployment_status import LLMDeploymentStatus
from tidegate.api.model_spec import ModelSpec
from tidegate.api.overload_spec import OverloadSpec
from tidegate.api.pool_spec import Pools
from tidegate.api.problems import problems as problems  # read from here by whoever reads a document
from tidegate.api.rollout_spec import RolloutSpec
from tidegate.api.rules import matches, rule, rules
from tidegate.api.wire import DNSLabel, ServiceName, Wire
from tidegate.api.workload_spec import SLOSpec, WorkloadSpec
from tidegate.errors import Invalid, Problem

GROUP = "tidegate.io"
VERSION = "v1alpha1"
KIND = "LLMDeployment"
PLURAL = "llmdeployments"
_SHIFTS_TO_ITSELF = "must be another deployment: one cannot shift requests to itself"


class LLMDeploymentSpec(Wire):
    """What the user asks for."""

    model: ModelSpec
    """The model and what is known of its shape."""
    engine: EngineSpec
    """The engine's image and limits."""
    kv_cache: KVCacheSpec = KVCacheSpec()
    """The KV cache's type, block size, offload and transfer."""
    budget: BudgetSpec = BudgetSpec()
    """The division of each GPU's memory."""
    workload: WorkloadSpec | None = None
    """The requests that the sizing assumes."""
    slo: SLOSpec | None = None
    """What the service promises."""
    pools: Pools
    """How many pods, on which nodes."""
    gate: GateSpec = GateSpec()
    """What stands before the engines and admits requests."""
    overload: OverloadSpec = OverloadSpec()
    """When the deployment counts as overloaded, and what is done then."""
    rollout: RolloutSpec = RolloutSpec()
    """How the pods of a new revision replace the old ones."""


class LLMDeployment(Wire):
    """One served model: sized, rendered, followed."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "size(self.metadata.name) <= 63 && "
                + matches("self.metadata.name", text.SERVICE_NAME.pattern),
                f"metadata.name must have at most 63 characters and {text.SERVICE_NAME.says}",
            ),
            *(
                rule(
                    f"!has(self.spec.overload) || !has(self.spec.overload.{block}) || "
                    f"!has(self.spec.overload.{block}.to) || "
                    f"self.spec.overload.{block}.to != self.metadata.name",
                    _SHIFTS_TO_ITSELF,
                    at=f".spec.overload.{block}.to",
                )
                for block in ("shift", "override")
            ),
        )
    )

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
        {"name": "Overload", "type": "string", "jsonPath": ".status.overload.summary"},
        {"name": "Rollout", "type": "string", "jsonPath": ".status.rollout.summary"},
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
        {"name": "Address", "type": "string", "jsonPath": ".status.address", "priority": 1},
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

    name: ServiceName
    """Name of the deployment: also of its Services, so a DNS label."""
    namespace: DNSLabel = "default"
    """Its namespace."""


def parse_spec(document: object) -> LLMDeploymentSpec:
    """Read `spec` of a document of the kind; raise `Invalid` with every problem and its field."""
    spec = _mapping(document).get("spec")
    if spec is None:
        raise Invalid([Problem("spec", "required field is missing")])
    try:
        return LLMDeploymentSpec.model_validate(spec, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Invalid(problems(error, LLMDeploymentSpec, ("spec",))) from error


def parse(document: object) -> LLMDeployment:
    """Read a whole document (a manifest); raise `Invalid` with every problem and its field.

    `status` is not read: it is the operator's own.
    """
    body = {key: value for key, value in _mapping(document).items() if key != "status"}
    found = _identity_problems(body.get("metadata"))
    try:
        parsed = LLMDeployment.model_validate(body, by_alias=True, by_name=False)
    except ValidationError as error:
        raise Invalid(found + problems(error, LLMDeployment)) from error
    found += _shifts_to_itself(parsed)
    if found:
        raise Invalid(found)
    return parsed


def _mapping(document: object) -> dict[str, Any]:
    if isinstance(document, dict) and all(isinstance(key, str) for key in document):
        return document
    raise Invalid(
        [Problem("document", "must be a mapping with apiVersion, kind, metadata and spec")]
    )


def _identity_problems(metadata: object) -> list[Problem]:
    """Check what everything is named after; the rest of the metadata is Kubernetes' own."""
    if not isinstance(metadata, dict):
        return []  # said by the whole document's model
    named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    try:
        Identity.model_validate(named, by_alias=True, by_name=False)
    except ValidationError as error:
        return problems(error, Identity, ("metadata",))
    return []


def _shifts_to_itself(parsed: LLMDeployment) -> list[Problem]:
    """Check the one rule that needs the name and the spec."""
    return [
        Problem(f"spec.overload.{field}", _SHIFTS_TO_ITSELF)
        for field, target in parsed.spec.overload.targets().items()
        if target == parsed.metadata.get("name")
    ]
