"""Every name, label and annotation that Tidegate gives, in one place."""

import hashlib

FIELD_MANAGER = "tidegate"
LABEL_DEPLOYMENT = "tidegate.io/deployment"
LABEL_POOL = "tidegate.io/pool"
LABEL_REVISION = "tidegate.io/revision"
LABEL_NODE_CLASS = "tidegate.io/node-class"
ANNOTATION_APPLIED = "tidegate.io/applied"
"""Digest of the object as Tidegate last applied it: tells a removed field from one never set."""
ANNOTATION_MEASURED = "tidegate.io/measured"
"""What was measured and is in a slice's numbers: it holds for as long as the slice is there."""
ANNOTATION_GATE = "tidegate.io/gate"
"""What gates are told of a slice: it holds for as long as the slice is there."""
ANNOTATION_SERVES = "tidegate.io/serves"
"""Names and length of the model in a slice's engines: as long as the slice is there."""
ANNOTATION_RENDERED = "tidegate.io/rendered"
"""The pods' template of a slice as it was rendered when the slice was made."""
MEASUREMENTS = "tidegate-measurements"
"""The ConfigMap, one in each namespace, that keeps what engines told of their memory."""
MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
RESERVED_PREFIXES = ("tidegate.io/", "app.kubernetes.io/")
GPU_RESOURCE = "nvidia.com/gpu"
ISLAND_LABEL = "tidegate.io/gpus-per-island"
"""A label that the owner of a node may set: how many of its GPUs reach each other fast."""
ENGINE_CONTAINER = "engine"
ENGINE_PORT = 8000
SIDE_CHANNEL_PORT = 5600
GATE = "gate"
"""The component label of a gate's objects, and the name of its container."""
ROLLOUT = "rollout"
"""The component label of the ConfigMap that keeps the looks at canaries."""
GATE_PORT = 8080
GATE_ADMIN_PORT = 9090

_SERVICE_LIMIT = 63
_WORKLOAD_LIMIT = 46
"""A Deployment's name grows by 17 characters for its pods, whose names are DNS labels (63)."""
_HASH_LENGTH = 8
_BASELINE = "-baseline-"


def digest(text: str, length: int = _HASH_LENGTH) -> str:
    """Return the first `length` hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def shortened(name: str, limit: int) -> str:
    """Cut a name to `limit` characters, ending in a hash of the whole so that it stays unique."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - _HASH_LENGTH - 1].rstrip('-.')}-{digest(name)}"


def slice_name(deployment: str, pool: str, revision: str, node_class: str) -> str:
    """Return the name of the Deployment of one slice."""
    return shortened(f"{deployment}-{pool}-{revision}-{node_class}", _WORKLOAD_LIMIT)


def pool_name(deployment: str, pool: str) -> str:
    """Return the name of a pool's own objects: its Service, budget, account and policy."""
    return shortened(f"{deployment}-{pool}", _SERVICE_LIMIT)


def gate_name(deployment: str) -> str:
    """Return the name of the gate's own objects: its configuration, budget, account and policy.

    Its Service has the deployment's own name: that is what clients call.
    """
    return shortened(f"{deployment}-{GATE}", _SERVICE_LIMIT)


def gate_workload_name(deployment: str) -> str:
    """Return the name of the gate's Deployment."""
    return shortened(f"{deployment}-{GATE}", _WORKLOAD_LIMIT)


def rollout_history_name(deployment: str) -> str:
    """Return the name of the ConfigMap that keeps the looks at a deployment's canaries."""
    return shortened(f"{deployment}-{ROLLOUT}", _SERVICE_LIMIT)


def rollout_history_labels(deployment: str) -> dict[str, str]:
    """Return the labels of that ConfigMap."""
    return {MANAGED_BY: FIELD_MANAGER, COMPONENT: ROLLOUT, LABEL_DEPLOYMENT: deployment}


def gate_labels(deployment: str) -> dict[str, str]:
    """Return the labels that select the gates' pods."""
    return {COMPONENT: GATE, LABEL_DEPLOYMENT: deployment}


def baseline_revision(stable: str, canary: str) -> str:
    """Return the revision of the fresh pods of `stable` that `canary` is compared with.

    With revisions of eight digits it has 26 characters.
    """
    return f"{stable}{_BASELINE}{canary}"


def original_revision(revision: str) -> str:
    """Return the revision that a baseline's pods are equal to; any other one is its own."""
    return revision.partition(_BASELINE)[0]


def is_baseline(revision: str) -> bool:
    """Say whether a revision is that of a canary's baseline, and never to be rolled out itself."""
    return _BASELINE in revision


def label_value(text: str) -> str:
    """Return a text as a label's value, at most 63 characters."""
    return shortened(text, 63)


def pool_labels(deployment: str, pool: str) -> dict[str, str]:
    """Return the labels that select the pods of a pool, whatever their revision."""
    return {LABEL_DEPLOYMENT: deployment, LABEL_POOL: pool}


def slice_labels(deployment: str, pool: str, revision: str, node_class: str) -> dict[str, str]:
    """Return the labels that select the pods of one slice."""
    return {
        **pool_labels(deployment, pool),
        LABEL_REVISION: revision,
        LABEL_NODE_CLASS: label_value(node_class),
    }
