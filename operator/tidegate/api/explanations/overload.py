"""Explanations of the reasons about the slow loop."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.WITHIN_THRESHOLDS: Explanation(
        "No signal is over its threshold: gates let in what the KV cache can hold.", "Nothing."
    ),
    Reason.OVER_THRESHOLD: Explanation(
        "A pool was over a threshold for as long as `enterAfter` says, so a share of the "
        "requests is shifted or shed.",
        "Read the runbook of the signal that the message names; `kubectl tidegate status` shows "
        "the shares.",
    ),
    Reason.LETTING_GO: Explanation(
        "The signals are under their thresholds again, and the shares go back step by step.",
        "Wait: two to six minutes once the load is gone; while as many requests come, the shares "
        "stay.",
    ),
    Reason.OVERRIDE_ACTIVE: Explanation(
        "A person set `spec.overload.override`: it holds instead of the loop until it lapses.",
        "`kubectl tidegate open NAME` lets go of it.",
    ),
    Reason.OVERRIDE_REFUSED: Explanation(
        "A person set `spec.overload.override` to shift to where requests would be lost or go in a "
        "circle: the loop goes on deciding, and the lever holds as soon as it can.",
        "Set another lever: `kubectl tidegate shift NAME PERCENT --to OTHER`, or `shed`.",
    ),
    Reason.OVERLOAD_OFF: Explanation(
        "`spec.overload.actions` is empty: the loop does nothing.",
        "Set `actions` to have it shift or shed.",
    ),
    Reason.SHIFTING: Explanation(
        "A share of the requests is served by another deployment.",
        "Nothing; it goes back with the load.",
    ),
    Reason.NOT_SHIFTING: Explanation("Every request is served here.", "Nothing."),
    Reason.METRICS_FRESH: Explanation("Prometheus tells what the loop decides by.", "Nothing."),
    Reason.METRICS_UNCONFIGURED: Explanation(
        "The operator was given no Prometheus, so the slow loop is off; the gate protects by "
        "itself.",
        "Set `prometheus.url` of the operator's settings.",
    ),
    Reason.METRICS_UNREACHABLE: Explanation(
        "Prometheus could not be reached, or gave no answer in time.",
        "Read the message; see the runbook MetricsStale.",
    ),
    Reason.METRICS_UNREADABLE: Explanation(
        "Prometheus, or what answers in its place, answered something that is no result of a "
        "query.",
        "Check `prometheus.url` of the operator's settings: it may be a login page or a proxy.",
    ),
    Reason.METRICS_MISSING: Explanation(
        "Prometheus answered, and has no series of this pool.",
        "Check that each engine and gate is scraped, with the labels that "
        "docs/guides/monitoring.md lists.",
    ),
    Reason.METRICS_STALE: Explanation(
        "The newest sample is older than three scrape intervals.",
        "Check the target in Prometheus and the clocks; see the runbook MetricsStale.",
    ),
    Reason.METRICS_AMBIGUOUS: Explanation(
        "There are two series for one pool or pod, which cannot both be right.",
        "Remove the second scrape job, or the second deployment of the same name.",
    ),
    Reason.METRICS_NOT_A_NUMBER: Explanation(
        "A sample is NaN or infinite.",
        "Look at the engine's `/metrics`; nothing was ever observed, or an exporter divides by "
        "zero.",
    ),
    Reason.SHIFT_CYCLE: Explanation(
        "Deployments would shift requests to each other in a circle.",
        "Shift to a deployment that shifts to none itself.",
    ),
    Reason.SHIFT_TARGET_DIFFERS: Explanation(
        "The deployment to shift to does not serve the same model: under another name it would "
        "refuse every shifted request, with other weights it gives other answers.",
        "Shift to a deployment that serves the same model under the same names.",
    ),
    Reason.SHIFT_TARGET_MISSING: Explanation(
        "The deployment to shift to is not there, or has no gate; nothing is shifted until it has.",
        "Create it in the same namespace, or correct the name.",
    ),
    Reason.OVERLOAD_IDLE: Explanation(
        "`spec.overload.actions` names what the loop may do, and none of it can take anything off: "
        "a shift has no target, or a bound is zero. Gates protect by themselves.",
        "Set `shift.to`, add Shed to `actions`, or raise the `maxPercent` or `shed.floor` that "
        "stops it; with `actions: []` the loop is off on purpose.",
    ),
    Reason.OVERRIDE_LAPSED: Explanation(
        "The end of `spec.overload.override` has passed: the loop decides again.",
        "Remove it (`kubectl tidegate open NAME`), or set another end.",
    ),
    Reason.OVERRIDE_LONG: Explanation(
        "`spec.overload.override` holds for more than a week: the loop decides nothing until then.",
        "Set an end that the incident will not outlast; a lever can be pulled again.",
    ),
}
