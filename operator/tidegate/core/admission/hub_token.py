"""Models for which the hub asks who is there: a pod without a token ends before it has loaded."""

from collections.abc import Iterator

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, warning

_GATED = ("meta-llama/", "google/gemma-", "mistralai/", "bigcode/starcoder", "CohereForAI/c4ai-")
"""Beginnings of ids whose models, most or all, are behind a licence on the Hugging Face hub.

From the model cards, as public reports of `GatedRepoError` name them; a hint and no refusal,
because a mirror or a warm cache may serve them without a token.
"""
_ELSEWHERE = ("HF_ENDPOINT", "HF_HUB_OFFLINE")


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield a warning where a model of a gated organisation is fetched without a token."""
    is_elsewhere = any(variable.name in _ELSEWHERE for variable in spec.engine.env)
    if spec.model.source is None and not is_elsewhere and spec.model.id.startswith(_GATED):
        yield warning(
            Reason.TOKEN_MISSING,
            "spec.model.id",
            "the hub gives models of this organisation to those who accepted its licence; without "
            "a token the pods would end with ModelAccessDenied",
        )
