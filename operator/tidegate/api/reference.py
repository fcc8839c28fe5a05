"""docs/reference/llmdeployment.md and reasons.md, written from the models and the reasons."""

from collections.abc import Iterator

from tidegate.api import crd, fields
from tidegate.api.explanations import EXPLANATIONS
from tidegate.api.fields import FieldFacts
from tidegate.api.reasons import Reason
from tidegate.api.rules import VALIDATIONS
from tidegate.api.schema import Schema

_GENERATED = "<!-- Generated from operator/tidegate/api by scripts/generate; do not edit. -->\n"
_ROOT_FIELDS = ("spec", "status")


def field_page() -> str:
    """Return the page of all fields: one table for each object."""
    lines = [
        _GENERATED,
        "# LLMDeployment",
        "",
        "`tidegate.io/v1alpha1`, namespaced, short name `llmd`, category `llm`.",
        "`kubectl explain llmd.spec` and `tidegate explain FIELD` show the same.",
        "",
        "A quantity is written as Kubernetes writes it (`40Gi`, `500m`), a duration as Go does "
        "(`30s`, `1h30m`). A field that is not set and has no default is absent: the engine's own "
        "choice, or the one that the description names, holds.",
        "",
    ]
    seen: list[tuple[str, Schema]] = []
    root = crd.kind_schema()
    for name in _ROOT_FIELDS:
        lines += _object(name, root["properties"][name], seen)
    return "\n".join(lines)


def reason_page() -> str:
    """Return the page of all reasons, in alphabetical order; each is a heading to link to."""
    lines = [
        _GENERATED,
        "# Reasons",
        "",
        "What the `reason` of a condition, an Event or a refusal means, and what to do. "
        "`tidegate explain REASON` shows the same.",
        "",
    ]
    for reason in sorted(Reason, key=lambda reason: reason.value.lower()):
        known = EXPLANATIONS[reason]
        lines += [
            f"## {reason.value}",
            "",
            known.meaning,
            "",
            f"**What to do:** {known.action}",
            "",
        ]
    return "\n".join(lines)


def _object(path: str, schema: Schema, seen: list[tuple[str, Schema]]) -> Iterator[str]:
    """Yield the section of an object and then those of the objects inside of it."""
    yield from (f"## {path}", "", schema.get("description", ""), "")
    twin = next((at for at, known in seen if fields.same_fields(known, schema)), None)
    if twin:
        yield from (f"The same fields as [`{twin}`](#{_anchor(twin)}).", "")
        return
    seen.append((path, schema))
    for rule in schema.get(VALIDATIONS, []):
        yield f"- Rule: {_cell(rule['message'])}."
    if VALIDATIONS in schema:
        yield ""
    yield from ("| Field | Type | Default | Meaning |", "| --- | --- | --- | --- |")
    known_fields = fields.by_path()
    for name in schema["properties"]:
        yield _row(known_fields[f"{path}.{name}"])
    yield ""
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from _object(f"{path}.{name}", inner, seen)
        elif "properties" in inner.get("items", {}):
            yield from _object(f"{path}.{name}[]", inner["items"], seen)


def _row(facts: FieldFacts) -> str:
    default = "required" if facts.required else f"`{facts.default}`" if facts.default else ""
    is_object = facts.type == "object" and facts.fields  # its rules stand in its own section
    bounds = "" if is_object else "".join(f"<br>{_cell(bound)}" for bound in facts.bounds)
    return f"| `{facts.name}` | {facts.type} | {default} | {_cell(facts.description)}{bounds} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _anchor(path: str) -> str:
    """Return the anchor of a heading as GitHub makes it: lower case, letters and digits only."""
    return "".join(char for char in path.lower() if char.isalnum() or char in "-_")
