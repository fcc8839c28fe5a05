"""Admission: what is said of a resource before it is stored. Pure; the webhook only carries it.

`review` is the entrance, for the webhook and for `tidegate check`; `held` has what the operator
asks of a resource that came in without a review. `wording` spells a review for the API server.
"""

from tidegate.core.admission.facts import Facts, Selector
from tidegate.core.admission.finding import Finding
from tidegate.core.admission.fit import Memo, Recollection, Unseen
from tidegate.core.admission.references import AccessQuestion
from tidegate.core.admission.review import Review, review
from tidegate.core.admission.rules import Enforcement, Rules

__all__ = [
    "AccessQuestion",
    "Enforcement",
    "Facts",
    "Finding",
    "Memo",
    "Recollection",
    "Review",
    "Rules",
    "Selector",
    "Unseen",
    "review",
]
