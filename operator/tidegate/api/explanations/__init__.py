"""What every reason means and what to do about it, by where the reasons come from.

`tidegate explain REASON` and docs/reference/reasons.md are made from this.
"""

from tidegate.api.explanations import (
    admission,
    cluster,
    measured,
    overload,
    plan,
    pods,
    rollout,
    spec,
    standing,
)
from tidegate.api.explanations.explanation import Explanation as Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
    **standing.EXPLANATIONS,
    **overload.EXPLANATIONS,
    **rollout.EXPLANATIONS,
    **measured.EXPLANATIONS,
    **spec.EXPLANATIONS,
    **plan.EXPLANATIONS,
    **cluster.EXPLANATIONS,
    **pods.EXPLANATIONS,
    **admission.EXPLANATIONS,
}
