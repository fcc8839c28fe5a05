"""Explanations of the reasons about a plan that works, and what it costs."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
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
}
