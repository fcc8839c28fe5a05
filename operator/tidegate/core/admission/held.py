"""What the operator holds by itself: a resource that slipped past admission is not trusted.

Whatever needs nodes, a plan or the cluster's objects the pass finds out in its own course. Here is
the rest: what a resource and the settings say alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core.admission import bounds, fit, images, lookalikes, overlay
from tidegate.core.admission.finding import Finding
from tidegate.core.admission.rules import Rules
from tidegate.errors import Refused


def require_readable(document: Mapping[str, Any]) -> None:
    """Refuse a resource that is too large to be read.

    Raises:
        Refused: SPEC_TOO_LARGE.
    """
    too_large = bounds.check(document)
    _require([too_large] if too_large else [])


def require(spec: LLMDeploymentSpec, rules: Rules) -> None:
    """Refuse what admission refuses of a spec by itself and by the settings.

    Raises:
        Refused: The reason is that of the first fault; the message names all of them.
    """
    _require(list(of_spec(spec, rules)))


def require_restricted(documents: list[dict[str, Any]]) -> None:
    """Refuse rendered objects whose pods break Pod Security `restricted`.

    Raises:
        Refused: POD_NOT_RESTRICTED with each rule.
    """
    _require(fit.rendered_faults(documents))


def of_spec(spec: LLMDeploymentSpec, rules: Rules) -> Iterator[Finding]:
    """Yield the faults of a spec that neither a plan nor its rendering would find."""
    yield from images.check(spec.engine.image, rules)
    yield from lookalikes.check(spec)
    yield from overlay.check(spec)


def _require(found: list[Finding]) -> None:
    if found:
        message = "; ".join(f"{one.limit}; {one.fix}" for one in found[:1])
        message += "".join(f"; {one.told}" for one in found[1:])
        raise Refused(found[0].reason, message, found[0].field)
