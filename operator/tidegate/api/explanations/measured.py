"""Explanations of the reasons about the plan beside what engines tell."""

from tidegate.api.explanations.explanation import Explanation
from tidegate.api.reasons import Reason

EXPLANATIONS: dict[Reason, Explanation] = {
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
}
