"""Explanations of the reasons about how things stand."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

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
    Reason.RENDERED_NOW: Explanation(
        "Pods are as this version of Tidegate, its settings and the nodes lead to.", "Nothing."
    ),
    Reason.RENDERED_BEFORE: Explanation(
        "Pods run as they were rendered when their slice was made. Since then Tidegate was "
        "upgraded, its settings were changed, or nodes tell other facts, and pods would be "
        "rendered otherwise. That alone restarts no engine.",
        "Nothing, or make a new revision when it suits: any change that rolls pods takes it "
        "along, such as another annotation in `podTemplate`.",
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
}
