"""`tidegate plan -f`: sizes resources, as they are and with other values."""

from collections.abc import Sequence
from typing import Any

from tidegate.api.llmdeployment import LLMDeployment, parse
from tidegate.cli.inputs import documents
from tidegate.cli.inputs.model_files import ModelFiles
from tidegate.cli.verdict import Verdict
from tidegate.core import nodes as node_classes
from tidegate.core import plan as planning
from tidegate.core.budget import shape
from tidegate.core.canary import needs
from tidegate.core.nodes import Node
from tidegate.core.what_if import resource
from tidegate.core.what_if.axes import Combination
from tidegate.core.what_if.curves import Basis
from tidegate.core.what_if.rows import Held, Row
from tidegate.errors import Refused, Wait


def verdicts(path: str, nodes: list[Node], files: ModelFiles) -> list[Verdict]:
    """Plan every resource of a file; a refusal is an answer here, not an error."""
    return [
        _verdict(deployment, nodes, beside, files)
        for deployment, beside in documents.deployments(path)
    ]


def tables(
    path: str, nodes: list[Node], files: ModelFiles, combinations: Sequence[Combination]
) -> list[tuple[str, list[Row]]]:
    """Plan every resource of a file with each combination of values, by its name.

    Raises:
        Invalid: A resource has no such field, or does not take a value.
    """
    named = []
    for document, beside in documents.deployment_documents(path):
        rows: list[Row] = []
        for combination in combinations:
            deployment = parse(resource.varied(document, combination))
            verdict = _verdict(deployment, nodes, beside, files)
            rows += _rows(combination, verdict)
        named.append((str(document["metadata"]["name"]), rows))
    return named


def _verdict(
    deployment: LLMDeployment,
    nodes: list[Node],
    beside: Sequence[dict[str, Any]],
    files: ModelFiles,
) -> Verdict:
    spec, name = deployment.spec, deployment.metadata["name"]
    try:
        config = files.of_resource(spec.model, beside)
        free = node_classes.free_gpus(nodes, (), None, None)
        plan = planning.make(spec, config, nodes, free, {})
    except (Refused, Wait) as refusal:
        return Verdict(name, "", None, refusal)
    title = f"{plan.mode}, vLLM {plan.engine_version}, revision {plan.revision}"
    budget = spec.budget
    basis = Basis(
        shape.read(config),
        budget.safety_line,
        weights_bytes=spec.model.weights.bytes,
        activations_bytes=budget.activations,
        kv_cache_bytes=budget.kv_cache,
    )
    left = needs.beside_replicas(spec, plan, nodes, free)
    return Verdict(name, title, plan, None, basis, needs.of(spec, plan, nodes, left))


def _rows(combination: Combination, verdict: Verdict) -> list[Row]:
    if verdict.plan is None:
        refusal = verdict.refusal
        assert refusal is not None  # one of the two is there
        told = Refused(refusal.reason, refusal.message, getattr(refusal, "field", None))
        return [Row(combination, "", "", None, told)]
    held = [
        Row(
            combination,
            entry.pool,
            entry.node_class.product,
            Held(entry.engine, entry.sizing, entry.gpus),
        )
        for entry in verdict.plan.slices
    ]
    return held + [
        Row(combination, e.pool, e.node_class, None, Refused(e.reason, e.message))
        for e in verdict.plan.exclusions
    ]
