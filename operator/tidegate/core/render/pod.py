"""The engine pod of a slice: the values that templates/deployment.yaml.j2 takes for it."""

from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.pool_spec import PodTemplate, Pool
from tidegate.api.quantities import spell_bytes
from tidegate.api.reasons import Reason
from tidegate.core import host_memory, names
from tidegate.core.plan import SlicePlan
from tidegate.core.render import environment, flags, scheduling, timing
from tidegate.core.render.expansion import literal
from tidegate.errors import Refused
from tidegate.facts.engines import Engine

_WRITABLE = {"tmp": "/tmp", "cache": environment.CACHE, "shared-memory": "/dev/shm"}


def values(
    spec: LLMDeploymentSpec, entry: SlicePlan, labels: dict[str, str], engine: Engine
) -> dict[str, Any]:
    """Return the template's values for a slice's pods, which carry `labels`.

    Raises:
        Refused: An argument, a variable or a label of the user's fights one of Tidegate's.
    """
    pool = spec.pools.by_name()[entry.pool]
    ending = timing.ending(entry.pool, spec.kv_cache.transfer)
    volumes, mounts = _volumes(spec, entry.gpus)
    return {
        "image": spec.engine.image,
        "image_pull_policy": spec.engine.image_pull_policy,
        "image_pull_secrets": [{"name": name} for name in spec.engine.image_pull_secrets] or None,
        "arguments": [literal(argument) for argument in flags.make(spec, entry, engine)],
        "variables": environment.make(spec, entry.pool),
        "ports": _ports(entry.pool),
        "resources": _resources(pool, entry),
        "volumes": volumes,
        "volume_mounts": mounts,
        "node_selector": pool.node_selector or None,
        "affinity": scheduling.affinity(entry.node_class, pool),
        "tolerations": scheduling.tolerations(pool),
        "topology_spread": scheduling.spread(labels),
        "pre_stop_seconds": ending.pre_stop_seconds,
        "grace_seconds": ending.grace_seconds,
        **_probes(),
        **_template(entry.pool, pool.pod_template, labels),
    }


def _template(pool: str, template: PodTemplate, labels: dict[str, str]) -> dict[str, Any]:
    """Add what the user adds to the pods."""
    check_template(pool, template)
    return {
        "pod_labels": {**template.labels, **labels},
        "pod_annotations": template.annotations or None,
        "priority_class_name": template.priority_class_name,
        "runtime_class_name": template.runtime_class_name,
        "scheduler_name": template.scheduler_name,
    }


def check_template(pool: str, template: PodTemplate) -> None:
    """Check what the user adds to the pods.

    Raises:
        Refused: LABEL_RESERVED names each label and annotation that is not the user's to set.
    """
    faults = reserved(template)
    if faults:
        raise Refused(
            Reason.LABEL_RESERVED,
            f"{', '.join(faults)}: selectors and Tidegate rely on these; remove them",
            f"spec.pools.{pool}.podTemplate",
        )


def reserved(template: PodTemplate) -> list[str]:
    """Name the labels and annotations that are not the user's to set."""
    faults = [
        f"label {key}"
        for key in template.labels
        if key.startswith(names.RESERVED_PREFIXES) or key == "pod-template-hash"
    ]
    return faults + [
        f"annotation {key}"
        for key in template.annotations
        if key.startswith(names.RESERVED_PREFIXES[0])
    ]


def _ports(pool: str) -> list[dict[str, Any]]:
    ports = [("http", names.ENGINE_PORT)]
    if pool in ("prefill", "decode"):
        ports.append(("side-channel", names.SIDE_CHANNEL_PORT))
    return [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports]


def _resources(pool: Pool, entry: SlicePlan) -> dict[str, Any]:
    """GPUs are a limit alone: for them the API server makes the request the same."""
    asked = pool.resources.wire()
    limits = asked["limits"] | {entry.node_class.resource: str(entry.gpus)}
    return asked | {"limits": limits} if asked["requests"] else {"limits": limits}


def _volumes(
    spec: LLMDeploymentSpec, gpus: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return volumes and mounts: what can be written, and the claim that holds the model."""
    shared = {"medium": "Memory", "sizeLimit": spell_bytes(host_memory.shared_bytes(spec, gpus))}
    volumes: list[dict[str, Any]] = [
        {"name": name, "emptyDir": shared if name == "shared-memory" else {}} for name in _WRITABLE
    ]
    mounts: list[dict[str, Any]] = [
        {"name": name, "mountPath": path} for name, path in _WRITABLE.items()
    ]
    claim = spec.model.source.persistent_volume_claim if spec.model.source else None
    if claim is not None:
        held = {"claimName": claim.claim_name, "readOnly": True}
        volumes.append({"name": "models", "persistentVolumeClaim": held})
        mounts.append({"name": "models", "mountPath": flags.MODELS, "readOnly": True})
    return volumes, mounts


def _probes() -> dict[str, int]:
    return {
        "probe_period_seconds": timing.PROBE_PERIOD_SECONDS,
        "probe_timeout_seconds": timing.PROBE_TIMEOUT_SECONDS,
        "startup_failures": timing.STARTUP_FAILURES,
        "readiness_failures": timing.READINESS_FAILURES,
        "liveness_period_seconds": timing.LIVENESS_PERIOD_SECONDS,
        "liveness_timeout_seconds": timing.LIVENESS_TIMEOUT_SECONDS,
        "liveness_failures": timing.LIVENESS_FAILURES,
        "hung_grace_seconds": timing.HUNG_GRACE_SECONDS,
    }
