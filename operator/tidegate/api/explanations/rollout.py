"""Explanations of the reasons about a rollout."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.PROMOTED: Explanation(
        "The spec's revision has all requests, and no pod of another one is left.", "Nothing."
    ),
    Reason.PROMOTING: Explanation(
        "A new revision replaces all others, within `maxSurge` and `maxUnavailable` (with "
        "`Recreate` all old pods go first): it has passed every step, its strategy has none, there "
        "was nothing to compare it with, or a person promoted it.",
        "Wait; the message says why it is taken.",
    ),
    Reason.CANARY_RUNNING: Explanation(
        "A new revision has a share of the requests and is judged by what users feel.",
        "Wait; `kubectl tidegate status NAME` shows the canary beside the stable revision.",
    ),
    Reason.CANARY_INCONCLUSIVE: Explanation(
        "The step's deadline passed without a verdict: no traffic, too few requests, no data from "
        "Prometheus, or no room for the pods of the canary or its baseline. It goes on by itself "
        "once there is one.",
        "Do what the message says: send traffic or mend the metrics, or decide yourself with "
        "`kubectl tidegate promote NAME` or `abort NAME`.",
    ),
    Reason.ROLLOUT_PAUSED: Explanation(
        "`spec.rollout.paused` is set, or no replicas are wanted: the rollout stays at its step. A "
        "failure still takes it back.",
        "`kubectl tidegate resume NAME`, or raise `replicas`.",
    ),
    Reason.ROLLOUT_ABORTED: Explanation(
        "A new revision was taken back, by its metrics, by its pods or by command. The stable one "
        "serves, and the failed one is not tried again by itself.",
        "Read the message, change the spec, or say `kubectl tidegate retry NAME`.",
    ),
    Reason.NO_CANARY: Explanation("No revision is being tried.", "Nothing."),
    Reason.CANARY_IMPOSSIBLE: Explanation(
        "The spec asks for a canary that can never run as it says: without a gate there are no "
        "weights, a step that takes every place leaves none to the old pod that must serve, and a "
        "`gpuBudget` below the GPUs of one pod pays for none. As a warning: the nodes that are "
        "there have no room for it.",
        "Turn the gate on, raise `gpuBudget` or `replicas`, lower the last weight, or set "
        "`strategy` to RollingUpdate; `tidegate plan -f FILE` shows what each step takes.",
    ),
    Reason.BASELINE_IMPOSSIBLE: Explanation(
        "`spec.rollout.baseline` asks for fresh stable pods beside the canary that can never come: "
        "canary, baseline and one stable pod are more than replicas and `gpuBudget` allow, or no "
        "step is judged.",
        "Raise `gpuBudget` or `replicas`, or leave `baseline` out.",
    ),
    Reason.ROLLOUT_UNREADABLE: Explanation(
        "`status.rollout` has something that this version of Tidegate cannot read: another version "
        "wrote it. To go on from anything else could promote a revision that failed, so pods and "
        "weights stay as they are, and `status.rollout` is kept as it stands.",
        "Run the version that wrote it, or remove `status.rollout` (`kubectl edit llmd NAME "
        "--subresource=status`): the rollout then begins anew from the pods that are there. If the "
        "spec asks for the revision that failed, change the spec first: what failed is forgotten, "
        "and it is tried again.",
    ),
}
