"""What the engines of each revision answer to: the model's names, and its length.

A new revision may change both, and an abort takes it back. So each slice carries its own on its
Deployment, from its making to its end, and gates are told those of the revisions with weight.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from tidegate.api.gate_config import RevisionConfig, Serves
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import names
from tidegate.core.plan import SlicePlan


def planned(spec: LLMDeploymentSpec, entries: Sequence[SlicePlan]) -> Serves:
    """Return what engines answer to that a spec asks for."""
    return Serves(
        models=spec.model.served_names or [spec.model.id],
        max_model_len=min(entry.engine.max_model_len for entry in entries),
    )


def encode(serves: Serves) -> str:
    """Return it as the Deployment of a slice carries it."""
    return json.dumps(serves.wire(), separators=(",", ":"))


def by_revision(annotated: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, Serves]:
    """Read it from the revisions and annotations of Deployments; some may tell nothing.

    Where the slices of a revision differ in length, what it takes is what each of them takes.
    """
    found: dict[str, Serves] = {}
    for revision, annotations in annotated:
        told = _decode(annotations)
        known = found.get(revision)
        if told is not None and (known is None or told.max_model_len < known.max_model_len):
            found[revision] = told
    return found


def _decode(annotations: Mapping[str, str]) -> Serves | None:
    try:
        return Serves.model_validate_json(annotations[names.ANNOTATION_SERVES])
    except (KeyError, ValidationError):
        return None


def tell(
    revisions: Sequence[RevisionConfig], current: str, of: Mapping[str, Serves], own: Serves
) -> dict[str, Any]:
    """Return the parts of a gate's configuration that say who answers to what.

    The document names what any revision with weight answers to; a revision says it for itself
    where it is another. Names of former revisions come first: clients that take the first one
    stay with what is stable for as long as it serves.

    Args:
        revisions: All that there are, with their weights.
        current: The revision that the spec asks for.
        of: What each answers to, where its slices tell it.
        own: What the spec asks for: it holds where a slice tells nothing.
    """
    known = {each.name: of.get(each.name, own) for each in revisions}
    in_turn = sorted(revisions, key=lambda each: each.name == current)
    weighted = [known[each.name] for each in in_turn if each.weight]
    models = list(dict.fromkeys(model for each in weighted for model in each.models))
    longest = max(each.max_model_len for each in weighted)

    def told(each: RevisionConfig) -> RevisionConfig:
        serves = known[each.name]
        if (serves.models, serves.max_model_len) == (models, longest):
            return each
        return each.model_copy(update={"serves": serves})

    return {
        "models": models,
        "maxModelLen": longest,
        "revisions": [told(each) for each in revisions],
    }
