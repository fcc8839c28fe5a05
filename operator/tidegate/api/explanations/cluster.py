"""Explanations of the reasons about the nodes and the cluster."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.WEIGHTS_DO_NOT_FIT: Explanation(
        "Weights and what the engine needs besides leave no memory for KV.",
        "Raise tensorParallel, use quantised weights or a larger GPU; the message has the numbers.",
    ),
    Reason.BUDGET_TOO_SMALL: Explanation(
        "The KV cache cannot hold one request of maxModelLen.",
        "Lower maxModelLen to the number in the message, or give the KV cache more memory.",
    ),
    Reason.GPU_UNKNOWN: Explanation(
        "Nodes have GPUs, but neither labels nor settings tell which.",
        "Run GPU feature discovery, or declare the class in the operator's `nodeClasses` setting.",
    ),
    Reason.NO_NODE_CLASS: Explanation(
        "No node with GPUs matches the pool's selector, affinity and tolerations.",
        "Correct them, or add nodes; the message says how many nodes failed which condition.",
    ),
    Reason.NODE_CLASS_MISSING: Explanation(
        "The pool is pinned to a class of GPU node that the cluster does not have.",
        "Correct `nodeClasses`; the message lists the classes that there are.",
    ),
    Reason.NODE_TOO_SMALL: Explanation(
        "No node of the class has as many GPUs as one pod needs.",
        "Lower tensorParallel or pipelineParallel, or use larger nodes.",
    ),
    Reason.NO_ROOM_TO_ROLL: Explanation(
        "A new revision needs a GPU, none is free, and no old pod may give way.",
        "Free a GPU, or set rollout.maxUnavailable to 1 or more.",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: Explanation(
        "The rollout made no progress for rollout.progressDeadline.",
        "Read the Ready condition for the cause; correct the spec, or apply the former one again.",
    ),
    Reason.REFERENCE_MISSING: Explanation(
        "A ConfigMap, Secret or claim that the resource names is not there.",
        "Create it; nothing else is needed.",
    ),
    Reason.CONFLICT: Explanation(
        "An object of that name exists and is not this deployment's; it was left alone.",
        "Rename the deployment, or remove the object.",
    ),
    Reason.APPLY_REFUSED: Explanation(
        "The API server refused an object that Tidegate rendered.",
        "Read the message: a policy or a quota of the cluster is the usual cause.",
    ),
}
