"""Names that look like another name: letters of two scripts in one, or compatibility characters.

A client that types `qwen3` does not reach `qwеn3` with a Cyrillic letter in it, and a reviewer does
not see it. Names wholly in one script are fine, and so are letters beside ideographs: the scripts
that are looked for are those whose letters have the shapes of Latin ones.
"""

import unicodedata
from collections.abc import Iterator

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission.finding import Finding, refusal, shown

_ALIKE = frozenset(("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"))
"""Scripts with letters that are drawn like those of another (Unicode TR 39 lists the pairs)."""


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield each name that is not what it looks like."""
    for field, name in _names(spec):
        told = objection(name)
        if told:
            yield refusal(Reason.LOOKALIKE_NAME, field, told)


def objection(name: str) -> str | None:
    """Say what misleads about a name; None where nothing does."""
    plain = unicodedata.normalize("NFKC", name)
    if plain != name:
        return f"has characters that stand for others; written plainly it is {shown(plain)}"
    scripts: dict[str, str] = {}
    for letter in name:
        script = unicodedata.name(letter, "").partition(" ")[0]
        if script in _ALIKE:
            scripts.setdefault(script, letter)
    if len(scripts) < 2:
        return None
    found = ", ".join(f"{letter!a} is {script.title()}" for script, letter in scripts.items())
    return f"mixes letters of several scripts that look alike ({found})"


def _names(spec: LLMDeploymentSpec) -> Iterator[tuple[str, str]]:
    model = spec.model
    yield "spec.model.id", model.id
    if model.revision is not None:
        yield "spec.model.revision", model.revision
    for index, name in enumerate(model.served_names):
        yield f"spec.model.servedNames[{index}]", name
    if spec.engine.speculative is not None and spec.engine.speculative.model is not None:
        yield "spec.engine.speculative.model", spec.engine.speculative.model
