"""Whether flags leave a multimodal model nothing but text: its tower is then not loaded."""

from collections.abc import Mapping
from typing import Any

from tidegate.core.budget.shape import ModelShape


def is_so(arguments: Mapping[str, Any], model: ModelShape) -> bool:
    """Tell whether every kind of input but text is turned off: by one flag, or by its limit."""
    if arguments.get("language-model-only", False):
        return True
    limits = arguments.get("limit-mm-per-prompt")
    if not isinstance(limits, Mapping) or not model.modalities:
        return False
    return all(_count(limits.get(modality)) == 0 for modality in model.modalities)


def _count(limit: Any) -> Any:
    """Return the limit, which may stand beside options (`{"count": 0}`)."""
    return limit.get("count") if isinstance(limit, Mapping) else limit
