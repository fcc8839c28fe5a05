"""Explanations of the reasons about a spec that cannot work."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
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
        "Set `spec.engine.version` to the image's; docs/reference/engines.md lists those that are "
        "known.",
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
        "The draft does not fit the model, its shape is unknown, or the engine takes no such key.",
        "Change what the message names; where the draft's shape is not known, give its config.json "
        "in `spec.engine.speculative.config`.",
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
}
