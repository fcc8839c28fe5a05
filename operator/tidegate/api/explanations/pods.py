"""Explanations of the reasons about why a pod does not serve."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.KV_CACHE_TOO_SMALL: Explanation(
        "The engine found less memory for KV than one request of maxModelLen needs.",
        "Lower maxModelLen to the engine's estimate in the message, or give KV more memory.",
    ),
    Reason.CUDA_OOM_AT_LOAD: Explanation(
        "The GPU's memory ran out while weights were loaded or the engine was profiled.",
        "Raise tensorParallel, lower maxNumBatchedTokens, or use quantised weights.",
    ),
    Reason.CUDA_OOM_AT_CAPTURE: Explanation(
        "The GPU's memory ran out while CUDA graphs were captured.",
        "Lower budget.safetyLine or maxNumSeqs, or set enforceEager.",
    ),
    Reason.CUDA_OOM_WHILE_SERVING: Explanation(
        "The GPU's memory ran out in a step of a serving engine, which then died.",
        "Lower budget.safetyLine or maxNumBatchedTokens.",
    ),
    Reason.GPU_STILL_HELD: Explanation(
        "Another process holds memory of the GPU: often the previous engine, still ending.",
        "It passes when that process ends; if it does not, look for it on the node.",
    ),
    Reason.ENGINE_FLAG_UNKNOWN: Explanation(
        "The engine does not know a flag: its version is not the one that was rendered for.",
        "Set `spec.engine.version` to the image's version, or remove the extra argument.",
    ),
    Reason.ENGINE_ARGUMENT_INVALID: Explanation(
        "The engine refused the value of an argument.", "Correct what the message names."
    ),
    Reason.MODEL_NOT_FOUND: Explanation(
        "The model's files are not where the engine looks for them.",
        "Correct `spec.model.id` or `spec.model.source`.",
    ),
    Reason.MODEL_REVISION_NOT_FOUND: Explanation(
        "The hub has no such revision of the model.", "Correct `spec.model.revision`."
    ),
    Reason.MODEL_ACCESS_DENIED: Explanation(
        "The hub wants a token, or the token has no access to the model.",
        "Set `spec.model.source.huggingFace.tokenSecretRef` to a token with access.",
    ),
    Reason.MODEL_HUB_UNREACHABLE: Explanation(
        "The engine cannot reach the model hub.",
        "Allow the pods out, or serve the model from a PersistentVolumeClaim.",
    ),
    Reason.MODEL_FILES_BROKEN: Explanation(
        "The model's files are incomplete or of an unknown architecture.",
        "Download them again, or use an engine version that knows the architecture.",
    ),
    Reason.SHARED_MEMORY_TOO_SMALL: Explanation(
        "The container's /dev/shm is too small for the engine.",
        "It is rendered large enough; look for a policy that changes volumes.",
    ),
    Reason.KV_TRANSFER_LIBRARY_MISSING: Explanation(
        "The image has no library for the KV transfer (NIXL).", "Use an image that has it."
    ),
    Reason.IMAGE_PULL_FAILED: Explanation(
        "The node cannot pull the image.", "Correct `spec.engine.image` or `imagePullSecrets`."
    ),
    Reason.CONTAINER_CONFIG_INVALID: Explanation(
        "The container cannot be made: a Secret or ConfigMap it needs is missing.",
        "Create what the message names.",
    ),
    Reason.UNSCHEDULABLE: Explanation(
        "No node can take the pod.", "The message says what is missing on how many nodes."
    ),
    Reason.STARTUP_TIMED_OUT: Explanation(
        "The engine was not healthy before the startup probe gave up.",
        "Read the pod's log; a slow disk or network is the usual cause.",
    ),
    Reason.LIVENESS_KILLED: Explanation(
        "The engine stopped answering /health and was restarted.", "Read the previous log."
    ),
    Reason.OUT_OF_MEMORY_KILLED: Explanation(
        "The kernel killed the engine for its host memory.",
        "Raise the pool's memory limit (`resources.limits.memory`).",
    ),
    Reason.ENGINE_CRASHED: Explanation(
        "The engine died while serving; its container then ends with exit code 0.",
        "Read the previous log (`kubectl logs --previous`).",
    ),
    Reason.EVICTED: Explanation(
        "A node put the pod out, for want of memory or disk, or to be drained.",
        "Another pod takes its place; look at the node if it happens again.",
    ),
    Reason.NODE_LOST: Explanation(
        "The pod's node does not answer.",
        "Kubernetes gives the node up after five minutes and another pod takes its place; delete "
        "the node if it is gone for good.",
    ),
    Reason.CRASH_LOOPING: Explanation(
        "The container ends again and again for a cause that is not known.",
        "Read the last lines of the log in the message.",
    ),
}
