"""The gate's objects: the pods that clients talk to, what they may do, and what they are told."""

import math
from dataclasses import dataclass
from typing import Any

from tidegate.api.gate_config import CONFIG_KEY, GateConfig
from tidegate.api.gate_spec import GateSpec
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.quantities import spell_bytes
from tidegate.api.reasons import Reason
from tidegate.core import gate_config, names
from tidegate.core.render import network, pod, scheduling, templates
from tidegate.core.render.expansion import literal
from tidegate.core.render.network import Readers
from tidegate.errors import Refused

_STATE = "/var/lib/tidegate"
_KEYS = "/etc/tidegate/keys"
_WRITABLE = {"state": _STATE, "tmp": "/tmp"}
_WRITABLE_BYTES = 16 * 2**20
"""A copy of the configuration is written, some kilobytes; a full disk evicts no neighbour."""

_PRE_STOP_SECONDS = 5
"""Until proxies and clients have seen that the endpoint leaves; a gate serves on meanwhile."""
_EXIT_SECONDS = 5
"""From the end of the drain to the end of the process."""
_STARTUP_FAILURES = 300
"""One a second. A process starts slowly on a busy node; to end it would only begin anew."""
_TIMES = {
    "pre_stop_seconds": _PRE_STOP_SECONDS,
    "startup_failures": _STARTUP_FAILURES,
    "readiness_period_seconds": 2,
    "liveness_period_seconds": 10,
    "liveness_failures": 3,
}


@dataclass(frozen=True)
class Image:
    """The image of the gates: the operator's own."""

    reference: str = "tidegate"
    pull_policy: str = "IfNotPresent"


_POD_KINDS = ("gate-role", "gate-role-binding", "gate-service")
_SHARED_KINDS = ("service-account", "network-policy", "pod-disruption-budget")


def objects(
    spec: LLMDeploymentSpec, config: GateConfig, readers: Readers, image: Image
) -> list[dict[str, Any]]:
    """Return the objects, without an owner; none where the gate is off.

    Raises:
        Refused: A label or an annotation of the user's is one of Tidegate's.
    """
    if not spec.gate.enabled:
        return []
    labels = _labels(config)
    values = _values(spec, config, readers, image, labels)
    kinds = (*_SHARED_KINDS, *_POD_KINDS, "gate-deployment")
    documents = [templates.fill(f"{kind}.yaml.j2", values) for kind in kinds]
    for document in documents:
        document["metadata"]["labels"] = dict(labels)
    return [*documents, config_map(config)]


def config_map(config: GateConfig) -> dict[str, Any]:
    """Return the object that the gates watch, without an owner."""
    values = {
        "name": names.gate_name(config.deployment),
        "namespace": config.namespace,
        "data": {CONFIG_KEY: gate_config.text(config)},
    }
    document = templates.fill("gate-config-map.yaml.j2", values)
    document["metadata"]["labels"] = _labels(config)
    return document


def _labels(config: GateConfig) -> dict[str, str]:
    return {names.MANAGED_BY: names.FIELD_MANAGER, **names.gate_labels(config.deployment)}


def _values(
    spec: LLMDeploymentSpec,
    config: GateConfig,
    readers: Readers,
    image: Image,
    labels: dict[str, str],
) -> dict[str, Any]:
    gate = spec.gate
    check(gate)
    volumes, mounts = _volumes(gate)
    template = gate.pod_template
    return {
        "name": names.gate_name(config.deployment),
        "workload_name": names.gate_workload_name(config.deployment),
        "namespace": config.namespace,
        "selector": names.gate_labels(config.deployment),
        "ingress": network.gate_ingress(readers),
        "service_name": config.gate_service,
        "service_type": gate.service.type,
        "service_port": gate.service.port,
        "service_annotations": gate.service.annotations or None,
        "replicas": gate.replicas,
        "pod_labels": {**template.labels, **labels},
        "pod_annotations": template.annotations or None,
        "priority_class_name": template.priority_class_name,
        "runtime_class_name": template.runtime_class_name,
        "scheduler_name": template.scheduler_name,
        "image": image.reference,
        "image_pull_policy": image.pull_policy,
        "image_pull_secrets": [{"name": name} for name in spec.engine.image_pull_secrets] or None,
        "container": names.GATE,
        "arguments": [literal(argument) for argument in _arguments(gate, config)],
        "port": names.GATE_PORT,
        "admin_port": names.GATE_ADMIN_PORT,
        "resources": {key: value for key, value in gate.resources.wire().items() if value},
        "volumes": volumes,
        "volume_mounts": mounts,
        "node_selector": gate.node_selector or None,
        "tolerations": [entry.wire() for entry in gate.tolerations] or None,
        "topology_spread": scheduling.spread(names.gate_labels(config.deployment)),
        "grace_seconds": _PRE_STOP_SECONDS + math.ceil(gate.deadlines.drain) + _EXIT_SECONDS,
        **_TIMES,
    }


def check(gate: GateSpec) -> None:
    """Check what the user adds to the gate's pods and Service.

    Raises:
        Refused: LABEL_RESERVED names each label and annotation that is not the user's to set.
    """
    faults = pod.reserved(gate.pod_template)
    faults += [
        f"annotation {key} of the Service"
        for key in gate.service.annotations
        if key.startswith(names.RESERVED_PREFIXES[0])
    ]
    if faults:
        raise Refused(
            Reason.LABEL_RESERVED,
            f"{', '.join(faults)}: selectors and Tidegate rely on these; remove them",
            "spec.gate",
        )


def _arguments(gate: GateSpec, config: GateConfig) -> list[str]:
    arguments = [
        "gate",
        f"--namespace={config.namespace}",
        f"--deployment={config.deployment}",
        f"--port={names.GATE_PORT}",
        f"--admin-port={names.GATE_ADMIN_PORT}",
        f"--state-dir={_STATE}",
    ]
    if gate.keys_secret_ref is not None:
        arguments.append(f"--keys-file={_KEYS}/{gate.keys_secret_ref.key}")
    return arguments


def _volumes(gate: GateSpec) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return volumes and mounts; a Secret's file follows the Secret, so it is no subPath."""
    size = {"sizeLimit": spell_bytes(_WRITABLE_BYTES)}
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": size} for name in _WRITABLE]
    mounts: list[dict[str, Any]] = [
        {"name": name, "mountPath": path} for name, path in _WRITABLE.items()
    ]
    keys = gate.keys_secret_ref
    if keys is not None:
        item = {"key": keys.key, "path": keys.key}
        secret = {"secretName": keys.name, "defaultMode": 0o440, "items": [item]}
        volumes.append({"name": "keys", "secret": secret})
        mounts.append({"name": "keys", "mountPath": _KEYS, "readOnly": True})
    return volumes, mounts
