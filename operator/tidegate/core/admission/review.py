"""One review: everything that is said of a resource before it is stored, from what is known."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.api import llmdeployment
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission import (
    baseline,
    bounds,
    collisions,
    defaults,
    finding,
    fit,
    held,
    hub_token,
    idle,
    levers,
    mended,
    references,
    rollout,
    rules,
    shifts,
    trust,
    updates,
)
from tidegate.core.admission.facts import Facts
from tidegate.core.admission.finding import Finding
from tidegate.core.admission.fit import Judged, Memo
from tidegate.core.admission.references import AccessQuestion
from tidegate.core.admission.rules import Enforcement
from tidegate.core.checks import Severity
from tidegate.errors import Invalid, Problem

Document = Mapping[str, Any]
_MOST_FINDINGS = 32
_GENERATED = "x" * 5
"""What the API server puts behind `generateName`: it does so after admission."""


@dataclass(frozen=True)
class Review:
    """The answer. `patch` are operations of a JSON patch; `access` is what is still to be asked."""

    problems: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()
    access: tuple[AccessQuestion, ...] = ()

    @property
    def allowed(self) -> bool:
        """Say whether the resource is let in, if the questions are answered with yes."""
        return not self.problems


def review(old: Document | None, new: Document, seen: Facts, memo: Memo | None = None) -> Review:
    """Review the creation of a resource, or with `old` its update.

    An update is not refused for a fault that the stored resource has too: it must stay possible to
    scale it, to label it and to let go of it. The operator holds such a resource anyway.
    """
    if _is_leaving(new):
        return Review()
    examined = _examine(new, seen, memo)
    found = _valued(examined.findings, new)
    if old is not None and any(one.is_refusal for one in found):
        found = _ratcheted(found, _valued(_examine(old, seen, memo).findings, old))
    before = _spec_of(old)
    if old is not None and before is not None and examined.spec is not None:
        effects = updates.findings(old, before, examined.spec, examined.judged, seen)
        found += _valued(tuple(effects), new)
    return Review(
        problems=_of(found, Severity.REFUSE),
        warnings=_of(found, Severity.WARN),
        notes=_of(found, Severity.INFORM),
        patch=tuple(addition.operation for addition in defaults.missing(new)),
        access=_access(before, examined, new),
    )


@dataclass(frozen=True)
class _Examined:
    """What is said of one document; `spec` is None where it cannot be read."""

    findings: tuple[Finding, ...]
    spec: LLMDeploymentSpec | None
    judged: Judged


def _examine(document: Document, seen: Facts, memo: Memo | None) -> _Examined:
    nothing = Judged((), ())
    too_large = bounds.check(document)
    if too_large is not None:
        return _Examined((too_large,), None, nothing)
    found = list(_of_annotation(document, seen))
    try:
        parsed = llmdeployment.parse(_named(document))
    except Invalid as invalid:
        found += map(finding.of_problem, invalid.problems)
        found += _of_the_rest(document, invalid.problems, seen)
        return _Examined(tuple(found), None, nothing)
    spec, name = parsed.spec, parsed.metadata["name"]
    judged = fit.judge(spec, seen, memo)
    found += held.of_spec(spec, seen.rules)
    found += judged.alone
    found += _enforced(document, seen, judged)
    found += collisions.of_names(name, spec, seen.others)
    found += collisions.of_labels(name, spec, seen.selectors)
    found += shifts.check(name, spec, seen.others, seen.now)
    found += idle.check(spec)
    found += levers.check(spec, seen.now)
    found += rollout.check(spec, can_judge=seen.can_judge)
    found += baseline.check(spec)
    found += trust.check(spec)
    found += hub_token.check(spec)
    return _Examined(tuple(found), spec, judged)


def _of_the_rest(document: Document, problems: Sequence[Problem], seen: Facts) -> Iterator[Finding]:
    """Yield the faults of a spec that cannot be read, from what is left without those of the form.

    What depends on the nodes is not among them: it would be told of another spec.
    """
    spec = _spec_of(mended.without(document, [problem.field for problem in problems]))
    if spec is not None:
        yield from held.of_spec(spec, seen.rules)
        yield from fit.without_config(spec)


def _of_annotation(document: Document, seen: Facts) -> Iterator[Finding]:
    if rules.enforcement_of(document, seen.rules) is None:
        yield finding.of_problem(
            Problem(
                f"metadata.annotations['{rules.ANNOTATION}']",
                f"must be {' or '.join(Enforcement)}",
            )
        )


def _enforced(document: Document, seen: Facts, judged: Judged) -> Iterator[Finding]:
    """Yield what the nodes decide; warnings alone where that is what was asked for."""
    is_warned = rules.enforcement_of(document, seen.rules) is Enforcement.WARN
    for one in judged.of_nodes:
        yield replace(one, severity=Severity.WARN) if is_warned and one.is_refusal else one


def _valued(found: tuple[Finding, ...], document: Document) -> list[Finding]:
    """Return the findings, each with what stands at its field."""
    return [replace(one, value=finding.value_at(document, one.field)) for one in found]


def _ratcheted(found: list[Finding], before: list[Finding]) -> list[Finding]:
    """Turn faults that were there before, with the same value, into warnings."""
    return [
        replace(one, severity=Severity.WARN) if one.is_refusal and one in before else one
        for one in found
    ]


def _access(
    before: LLMDeploymentSpec | None, examined: _Examined, document: Document
) -> tuple[AccessQuestion, ...]:
    spec = examined.spec
    if spec is None:
        return ()
    namespace = (document.get("metadata") or {}).get("namespace", "default")
    makes_pods = before is None or updates.rolls_pods(before, spec, examined.judged.config)
    return references.questions(before, spec, namespace, makes_pods=makes_pods)


def _spec_of(document: Document | None) -> LLMDeploymentSpec | None:
    """Return the spec of a stored resource; None where this version cannot read it."""
    if document is None or bounds.check(document) is not None:
        return None
    try:
        return llmdeployment.parse_spec(dict(document))
    except Invalid:
        return None


def _named(document: Document) -> dict[str, Any]:
    """Give a document that asks for a name one that is as long."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("name") is not None:
        return dict(document)
    start = metadata.get("generateName")
    if not isinstance(start, str):
        return dict(document)
    return {**document, "metadata": {**metadata, "name": f"{start}{_GENERATED}"}}


def _is_leaving(document: Document) -> bool:
    """A resource that is being deleted must get rid of its finalizers, whatever it says."""
    metadata = document.get("metadata")
    return isinstance(metadata, Mapping) and metadata.get("deletionTimestamp") is not None


def _of(found: list[Finding], severity: Severity) -> tuple[Finding, ...]:
    """Return the findings of a severity, each once, at most as many as somebody reads."""
    chosen = list(dict.fromkeys(one for one in found if one.severity is severity))
    if len(chosen) <= _MOST_FINDINGS:
        return tuple(chosen)
    more = f"and {len(chosen) - _MOST_FINDINGS} more like these"
    last = Finding(Reason.INVALID_SPEC, severity, "spec", more, more)
    return (*chosen[:_MOST_FINDINGS], last)
