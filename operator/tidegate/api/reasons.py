"""Every reason that a verdict or a condition can carry: a constant, what it means, what to do.

`tidegate explain REASON` and docs/reference/reasons.md are made from this table.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The reasons, by where they come from."""

    # how things stand
    READY = "PodsReady"
    PODS_STARTING = "PodsStarting"
    ROLLING_OUT = "RollingOut"
    SCALING = "Scaling"
    SETTLED = "Settled"
    SCALED_TO_ZERO = "ScaledToZero"
    FITS = "Fits"
    POOLS_AVAILABLE = "PoolsAvailable"
    POOL_UNAVAILABLE = "PoolUnavailable"
    NOT_PLANNED = "NotPlanned"
    GATE_UNAVAILABLE = "GateUnavailable"
    GATE_CONFIG_REFUSED = "GateConfigRefused"
    PAIR_UNTRIED = "PairUntried"
    # the plan beside what engines tell
    AS_PLANNED = "AsPlanned"
    NOT_MEASURED = "NotMeasured"
    KV_SMALLER_THAN_PLANNED = "KVSmallerThanPlanned"
    KV_LARGER_THAN_PLANNED = "KVLargerThanPlanned"
    # the spec cannot work
    INVALID_SPEC = "InvalidSpec"
    MODEL_UNKNOWN = "ModelUnknown"
    MODEL_NOT_SIZED = "ModelNotSized"
    MODEL_CONFIG_INVALID = "ModelConfigInvalid"
    ENGINE_VERSION_UNKNOWN = "EngineVersionUnknown"
    FLAG_UNSUPPORTED = "FlagUnsupported"
    FLAG_OWNED_BY_FIELD = "FlagOwnedByField"
    FLAG_REPEATED = "FlagRepeated"
    ENV_RESERVED = "EnvReserved"
    LABEL_RESERVED = "LabelReserved"
    KV_DTYPE_UNSUPPORTED = "KVDtypeUnsupported"
    BLOCK_SIZE_UNSUPPORTED = "BlockSizeUnsupported"
    ATTENTION_BACKEND_UNSUPPORTED = "AttentionBackendUnsupported"
    PARALLELISM_INVALID = "ParallelismInvalid"
    LENGTH_INVALID = "LengthInvalid"
    BATCH_INVALID = "BatchInvalid"
    SPECULATION_INVALID = "SpeculationInvalid"
    PAIR_INCOMPATIBLE = "PairIncompatible"
    QUANTIZATION_UNSUPPORTED = "QuantizationUnsupported"
    OFFLOAD_UNSUPPORTED = "OffloadUnsupported"
    OFFLOAD_TOO_LARGE = "OffloadTooLarge"
    # the plan works, and may disappoint
    BUDGET_UNCERTAIN = "BudgetUncertain"
    PEAK_DOES_NOT_FIT = "PeakDoesNotFit"
    PREFILL_TOO_SLOW = "PrefillTooSlow"
    OBJECTIVE_UNREACHABLE = "ObjectiveUnreachable"
    PREEMPTION_LIKELY = "PreemptionLikely"
    PREFIX_NOT_SHARED = "PrefixNotShared"
    GPUS_LEFT_IDLE = "GPUsLeftIdle"
    GPUS_NOT_LINKED = "GPUsNotLinked"
    SPLIT_DOES_NOT_PAY = "SplitDoesNotPay"
    OFFLOAD_DOES_NOT_PAY = "OffloadDoesNotPay"
    HOST_MEMORY_NOT_REQUESTED = "HostMemoryNotRequested"
    EXTRA_ARGS_TAKE_MEMORY = "ExtraArgsTakeMemory"
    TYPE_NOT_NATIVE = "TypeNotNative"
    # what the plan costs
    PEAK_FITS = "PeakFits"
    PACE_UNKNOWN = "PaceUnknown"
    PREEMPTION_PRICED = "PreemptionPriced"
    SPECULATION_PRICED = "SpeculationPriced"
    OFFLOAD_PRICED = "OffloadPriced"
    SPLIT_PRICED = "SplitPriced"
    PREFIX_SHARED = "PrefixShared"
    # the nodes
    WEIGHTS_DO_NOT_FIT = "WeightsDoNotFit"
    BUDGET_TOO_SMALL = "BudgetTooSmall"
    GPU_UNKNOWN = "GPUUnknown"
    NO_NODE_CLASS = "NoNodeClass"
    NODE_CLASS_MISSING = "NodeClassMissing"
    NODE_TOO_SMALL = "NodeTooSmall"
    NO_ROOM_TO_ROLL = "NoRoomToRoll"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    # the cluster
    REFERENCE_MISSING = "ReferenceMissing"
    CONFLICT = "Conflict"
    APPLY_REFUSED = "ApplyRefused"
    # why a pod does not serve
    KV_CACHE_TOO_SMALL = "KVCacheTooSmall"
    CUDA_OOM_AT_LOAD = "CUDAOutOfMemoryAtLoad"
    CUDA_OOM_AT_CAPTURE = "CUDAOutOfMemoryAtCapture"
    CUDA_OOM_WHILE_SERVING = "CUDAOutOfMemoryWhileServing"
    GPU_STILL_HELD = "GPUStillHeld"
    ENGINE_FLAG_UNKNOWN = "EngineFlagUnknown"
    ENGINE_ARGUMENT_INVALID = "EngineArgumentInvalid"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_REVISION_NOT_FOUND = "ModelRevisionNotFound"
    MODEL_ACCESS_DENIED = "ModelAccessDenied"
    MODEL_HUB_UNREACHABLE = "ModelHubUnreachable"
    MODEL_FILES_BROKEN = "ModelFilesBroken"
    SHARED_MEMORY_TOO_SMALL = "SharedMemoryTooSmall"
    KV_TRANSFER_LIBRARY_MISSING = "KVTransferLibraryMissing"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_INVALID = "ContainerConfigInvalid"
    UNSCHEDULABLE = "Unschedulable"
    STARTUP_TIMED_OUT = "StartupTimedOut"
    LIVENESS_KILLED = "LivenessKilled"
    OUT_OF_MEMORY_KILLED = "OutOfMemoryKilled"
    ENGINE_CRASHED = "EngineCrashed"
    EVICTED = "Evicted"
    NODE_LOST = "NodeLost"
    CRASH_LOOPING = "CrashLooping"
    # what admission alone refuses, and the operator holds
    SPEC_TOO_LARGE = "SpecTooLarge"
    LOOKALIKE_NAME = "LookalikeName"
    IMAGE_NOT_ALLOWED = "ImageNotAllowed"
    IMAGE_NOT_PINNED = "ImageNotPinned"
    PRIORITY_RESERVED = "PriorityReserved"
    LABEL_COLLISION = "LabelCollision"
    POD_NOT_RESTRICTED = "PodNotRestricted"
    MODE_SWITCH_WHILE_ROLLING = "ModeSwitchWhileRolling"
    ACCESS_DENIED = "AccessDenied"
    # what admission warns of
    NOT_CHECKED = "NotChecked"
    UPDATE_ROLLS_PODS = "UpdateRollsPods"
    TRUSTS_OTHERS = "TrustsOthers"
    TOKEN_MISSING = "TokenMissing"


@dataclass(frozen=True)
class Explanation:
    """What a reason means, and what to do about it."""

    meaning: str
    action: str


EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.READY: Explanation("Every pod that the spec asks for is ready.", "Nothing."),
    Reason.PODS_STARTING: Explanation(
        "Pods are being scheduled or load the model.",
        "Wait; a large model can take 20 minutes. `kubectl describe pod` shows how far it is.",
    ),
    Reason.ROLLING_OUT: Explanation(
        "Pods of a new revision replace the old ones.", "Wait; `status.pools` shows the progress."
    ),
    Reason.SCALING: Explanation("Pods are added to or taken from a pool.", "Wait."),
    Reason.SETTLED: Explanation("The cluster matches the spec.", "Nothing."),
    Reason.SCALED_TO_ZERO: Explanation(
        "Every pool asks for no pods.", "Set `replicas` of a pool above 0 to serve."
    ),
    Reason.FITS: Explanation(
        "Every pool holds at least one request of maxModelLen on each class that it uses.",
        "Nothing.",
    ),
    Reason.POOLS_AVAILABLE: Explanation("Every pool has a ready pod.", "Nothing."),
    Reason.POOL_UNAVAILABLE: Explanation(
        "A pool has no ready pod.", "Read the Ready condition: it names the cause."
    ),
    Reason.NOT_PLANNED: Explanation(
        "There is no plan, because the spec or the nodes do not allow one.",
        "Read the Stalled condition.",
    ),
    Reason.GATE_UNAVAILABLE: Explanation(
        "The engines may be ready, but no gate answers, so clients reach none of them.",
        "Wait while gates start; the message names what keeps a pod from starting, if anything.",
    ),
    Reason.GATE_CONFIG_REFUSED: Explanation(
        "A gate does not take what the operator wrote for it, and serves by its last good "
        "configuration: gate and operator are of different versions, or somebody changed the "
        "ConfigMap.",
        "Let `gateImage` of the operator's settings be the operator's own image.",
    ),
    Reason.PAIR_UNTRIED: Explanation(
        "Prefill and decode pods are ready, and the gate has not yet sent a request through both.",
        "Wait; the gate is asked to send one as soon as both pools have a ready pod.",
    ),
    Reason.AS_PLANNED: Explanation(
        "Engines have as much KV as was planned.", "Nothing is to be done."
    ),
    Reason.NOT_MEASURED: Explanation(
        "No ready engine of the current revision has told of its KV cache.",
        "Wait until one is ready; if one is, let the operator's pods reach port 8000 of it.",
    ),
    Reason.KV_SMALLER_THAN_PLANNED: Explanation(
        "Engines have less KV than was planned, by more than the operator's limit.",
        "The message names the term that is off. What was measured is used when pods are next "
        "replaced; until then plan for what `status.plan[].measured` says.",
    ),
    Reason.KV_LARGER_THAN_PLANNED: Explanation(
        "Engines have more KV than was planned, by more than the operator's limit.",
        "The message names the term that is off. What was measured is used when pods are next "
        "replaced.",
    ),
    Reason.INVALID_SPEC: Explanation(
        "The resource cannot be read.", "Correct each field that the message names."
    ),
    Reason.MODEL_UNKNOWN: Explanation(
        "The model's shape is not known: its id is not in the catalogue and no config is given.",
        "Put the model's config.json in `spec.model.config`, or in a ConfigMap and name it in "
        "`spec.model.configRef`.",
    ),
    Reason.MODEL_NOT_SIZED: Explanation(
        "The model has a structure, or weights of a format, that the sizing rules do not cover.",
        "Use a newer Tidegate or another model; where only the weights have no known size, set "
        "`spec.model.weights.bytes`.",
    ),
    Reason.MODEL_CONFIG_INVALID: Explanation(
        "The model's config.json lacks a value or holds one that makes no sense.",
        "Correct the key that the message names.",
    ),
    Reason.ENGINE_VERSION_UNKNOWN: Explanation(
        "The image's tag does not tell vLLM's version, no catalogue covers it, or the tag and "
        "`engine.version` differ.",
        "Set `spec.engine.version` to the image's; `tidegate explain engine.version` lists them.",
    ),
    Reason.FLAG_UNSUPPORTED: Explanation(
        "This version of the engine has no such flag or value.",
        "Use another engine version, or remove the field or the argument.",
    ),
    Reason.FLAG_OWNED_BY_FIELD: Explanation(
        "An extra argument repeats or fights a flag that a field of the resource owns.",
        "Set the field that the message names and remove the argument.",
    ),
    Reason.FLAG_REPEATED: Explanation(
        "An extra argument is given twice; the engine would take the last.", "Keep one of them."
    ),
    Reason.ENV_RESERVED: Explanation(
        "An environment variable fights one that Tidegate sets, or changes what the plan rests on.",
        "Remove it; the message names the field that does the same, if there is one.",
    ),
    Reason.LABEL_RESERVED: Explanation(
        "A label or annotation of the pod template is one that Tidegate uses itself.", "Remove it."
    ),
    Reason.KV_DTYPE_UNSUPPORTED: Explanation(
        "This engine version, model or GPU cannot keep the KV cache in the type.",
        "Use a type that the message lists.",
    ),
    Reason.BLOCK_SIZE_UNSUPPORTED: Explanation(
        "The attention backend cannot use this block size.", "Use one that the message lists."
    ),
    Reason.ATTENTION_BACKEND_UNSUPPORTED: Explanation(
        "The engine has no such attention backend, or the GPU or the KV type cannot use it.",
        "Use one that the message lists, or remove the field.",
    ),
    Reason.PARALLELISM_INVALID: Explanation(
        "The model cannot be divided over that many GPUs.",
        "Use a tensorParallel or pipelineParallel that the message lists.",
    ),
    Reason.LENGTH_INVALID: Explanation(
        "maxModelLen, or the declared workload, is longer than the model or the engine allows.",
        "Lower it to the number in the message.",
    ),
    Reason.BATCH_INVALID: Explanation(
        "The batch limits contradict each other.", "Change the field that the message names."
    ),
    Reason.SPECULATION_INVALID: Explanation(
        "The draft does not fit the model, or its shape is not known.",
        "Give the draft's config.json in `spec.engine.speculative.config`.",
    ),
    Reason.PAIR_INCOMPATIBLE: Explanation(
        "Prefill and decode pods cannot exchange KV: by the plan, or because a request that the "
        "gate sent through both failed, though each of the pods is ready.",
        "Make the two pools alike in what the message names, or read the pods' logs.",
    ),
    Reason.QUANTIZATION_UNSUPPORTED: Explanation(
        "The engine does not start with weights of this type: the GPU is too old, or the "
        "checkpoint is stored in another way than `quantization` says.",
        "Use a newer GPU, or a checkpoint of another type; `quantization` is needed only for what "
        "the engine quantises while loading, such as fp8.",
    ),
    Reason.OFFLOAD_UNSUPPORTED: Explanation(
        "The engine cannot offload the KV of this model as it is configured.",
        "Change the field that the message names.",
    ),
    Reason.OFFLOAD_TOO_LARGE: Explanation(
        "The host memory for offloaded KV is more than the pod, or a node, may have.",
        "Lower `kvCache.offload.cpu` to the number in the message, or raise the memory limit.",
    ),
    Reason.BUDGET_UNCERTAIN: Explanation(
        "One request fits by the estimates only, or pods that share a card may plan more than it.",
        "Lower maxModelLen or safetyLine to the number in the message, or measure an engine.",
    ),
    Reason.PEAK_DOES_NOT_FIT: Explanation(
        "At `workload.peakRequestsPerSecond` more requests are in flight than the KV cache holds.",
        "Add replicas or make room as the message says; without it, requests wait or are refused.",
    ),
    Reason.PREFILL_TOO_SLOW: Explanation(
        "At the peak, computing the prompts alone keeps all GPUs busy, however they are driven.",
        "Add replicas, raise tensorParallel, or share a prefix.",
    ),
    Reason.OBJECTIVE_UNREACHABLE: Explanation(
        "The card cannot reach an objective of `spec.slo` even when it has nothing else to do.",
        "Raise tensorParallel, use quantised weights or a faster card, or correct the objective.",
    ),
    Reason.PREEMPTION_LIKELY: Explanation(
        "maxNumSeqs lets in more requests of the workload than the KV cache holds: the engine "
        "then throws some out and computes them again.",
        "Lower `engine.maxNumSeqs` to the number in the message, or remove it.",
    ),
    Reason.PREFIX_NOT_SHARED: Explanation(
        "`workload.sharedPrefixTokens` saves nothing as the engine is configured.",
        "Turn `engine.prefixCaching` on, or remove the field.",
    ),
    Reason.GPUS_LEFT_IDLE: Explanation(
        "The GPUs of a node are no multiple of those of a pod, so some can never be used.",
        "Use a tensorParallel that divides the GPUs of a node.",
    ),
    Reason.GPUS_NOT_LINKED: Explanation(
        "A pod's GPUs exchange activations over PCIe: the card has no NVLink, or only in pairs.",
        "Lower tensorParallel, use pipelineParallel, or cards with NVLink.",
    ),
    Reason.SPLIT_DOES_NOT_PAY: Explanation(
        "Moving a prompt's KV from prefill to decode takes long beside computing it.",
        "Use a faster network, a smaller KV type, or a unified pool.",
    ),
    Reason.OFFLOAD_DOES_NOT_PAY: Explanation(
        "Reading offloaded KV back takes as long as computing it again.",
        "Remove `kvCache.offload`, or use it for longer contexts.",
    ),
    Reason.HOST_MEMORY_NOT_REQUESTED: Explanation(
        "Offloaded KV takes host memory that the pod does not request, so the scheduler does not "
        "count it.",
        "Raise `resources.requests.memory` of the pool to the number in the message.",
    ),
    Reason.EXTRA_ARGS_TAKE_MEMORY: Explanation(
        "An extra argument changes how much GPU memory the engine needs; the plan does not count "
        "it.",
        "Leave room with `budget.kvCache`, and compare with what the engine reports.",
    ),
    Reason.TYPE_NOT_NATIVE: Explanation(
        "The GPU has no arithmetic for the type of the weights or of the KV cache: it saves "
        "memory, and costs time where it is widened.",
        "Measure the time for each output token before relying on it.",
    ),
    Reason.PEAK_FITS: Explanation(
        "The KV cache holds all requests that are in flight at the peak.", "Nothing."
    ),
    Reason.PACE_UNKNOWN: Explanation(
        "A peak is declared without the pace at which requests are answered, so how many are in "
        "flight is not known.",
        "Set `spec.slo`.",
    ),
    Reason.PREEMPTION_PRICED: Explanation(
        "What it costs when the engine throws a request out and computes it again.", "Nothing."
    ),
    Reason.SPECULATION_PRICED: Explanation(
        "What memory the draft takes, and how many requests that costs.", "Nothing."
    ),
    Reason.OFFLOAD_PRICED: Explanation(
        "How long it takes to read offloaded KV back, beside computing it again.", "Nothing."
    ),
    Reason.SPLIT_PRICED: Explanation(
        "How long it takes to move a prompt's KV, beside computing it.", "Nothing."
    ),
    Reason.PREFIX_SHARED: Explanation("What the prefix that all prompts share saves.", "Nothing."),
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
    Reason.SPEC_TOO_LARGE: Explanation(
        "The resource is larger, or nested deeper, than Tidegate reads.",
        "Put a large config.json into a ConfigMap that `model.configRef` names; remove the rest.",
    ),
    Reason.LOOKALIKE_NAME: Explanation(
        "A name has letters that look like others: of two scripts in one word, or of full width.",
        "Write the name with the letters that clients will type.",
    ),
    Reason.IMAGE_NOT_ALLOWED: Explanation(
        "The operator's `admission.registries` setting does not list where the image comes from.",
        "Use an image of a listed registry, or ask for the registry to be added.",
    ),
    Reason.IMAGE_NOT_PINNED: Explanation(
        "The operator's `admission.digestsOnly` setting asks for images by digest.",
        "Add the image's digest: `name:tag@sha256:...`.",
    ),
    Reason.PRIORITY_RESERVED: Explanation(
        "Priority classes that begin with `system-` are for the cluster's own pods.",
        "Use a priority class of your own.",
    ),
    Reason.LABEL_COLLISION: Explanation(
        "The pods would carry all labels by which another object selects its own pods.",
        "Remove or change the label of `podTemplate` that the message names.",
    ),
    Reason.POD_NOT_RESTRICTED: Explanation(
        "A pod as rendered breaks a rule of Kubernetes' restricted Pod Security Standard.",
        "Report it: no field of the resource should be able to do this.",
    ),
    Reason.MODE_SWITCH_WHILE_ROLLING: Explanation(
        "`unified` was to become a pair, or the reverse, while another rollout runs.",
        "Wait until the rollout has ended, or apply the former spec first.",
    ),
    Reason.ACCESS_DENIED: Explanation(
        "Who writes the resource may not do what it would do for them: read a Secret, a ConfigMap "
        "or a claim that it names, or create pods in the namespace.",
        "Ask for that permission, or remove the reference.",
    ),
    Reason.NOT_CHECKED: Explanation(
        "Something was not known at admission, such as the nodes or a ConfigMap.",
        "Nothing: the operator checks it before it makes pods, and says so in `status`.",
    ),
    Reason.UPDATE_ROLLS_PODS: Explanation(
        "The update changes what shapes the pods, so all of them are replaced.",
        "Nothing, if that is meant; the message says how many and for how long capacity drops.",
    ),
    Reason.TRUSTS_OTHERS: Explanation(
        "An extra argument lets code of a model's repository, or clients, do more in the engine.",
        "Remove it where it is not needed; pin `model.revision` to a commit.",
    ),
    Reason.TOKEN_MISSING: Explanation(
        "The hub asks for a token for models of this organisation, and the resource has none.",
        "Set `spec.model.source.huggingFace.tokenSecretRef`.",
    ),
}
