"""Where a deployment shifts requests to: it must be there, serve them, and not send them back.

The loop looks again before it shifts, and gates serve a shifted request themselves; here it is said
while somebody can still change it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.api.instant import parse_instant
from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core.admission import paths
from tidegate.core.admission.finding import Finding, refusal, warning
from tidegate.core.overload import lever

_Others = Mapping[str, Mapping[str, Any]]


def check(
    name: str, spec: LLMDeploymentSpec, others: Sequence[Mapping[str, Any]], now: float | None
) -> Iterator[Finding]:
    """Yield what is wrong with the targets of a deployment.

    Args:
        name: The deployment.
        spec: Its spec.
        others: The other deployments of its namespace, as they are stored.
        now: Seconds since 1970: a lever that has lapsed shifts nothing. None: every one holds.
    """
    known = {str(paths.value(other, ("metadata", "name"))): other for other in others}
    for field, target in _own(spec, now).items():
        at = f"spec.overload.{field}"
        if target not in known:
            yield warning(Reason.SHIFT_TARGET_MISSING, at, f"there is no deployment {target}")
            continue
        circle = _circle(name, target, known, now)
        if circle:
            told = " -> ".join(circle)
            yield refusal(Reason.SHIFT_CYCLE, at, f"requests would go in a circle: {told}")
        yield from _differences(at, spec, target, known[target])


def _differences(
    at: str, spec: LLMDeploymentSpec, target: str, other: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield why the target would not serve what it is sent, or serve it otherwise."""
    if paths.value(other, ("spec", "gate", "enabled")) is False:
        yield warning(Reason.SHIFT_TARGET_MISSING, at, f"{target} has no gate to shift to")
        return
    model = spec.model
    asked_for = model.served_names or [model.id]
    serves = _served(other)
    missing = [wanted for wanted in asked_for if wanted not in serves]
    if missing:
        listed = ", ".join(map(ascii, missing))
        yield refusal(
            Reason.SHIFT_TARGET_DIFFERS,
            at,
            f"{target} does not serve the name {listed}, so it would refuse what is shifted to it",
            f"add it to model.servedNames of {target}",
        )
    other_id = paths.value(other, ("spec", "model", "id"))
    if not missing and other_id != model.id:
        yield warning(
            Reason.SHIFT_TARGET_DIFFERS,
            at,
            f"{target} serves the model {other_id!a} and not {model.id!a} under that "
            "name, so clients get other answers from it",
        )


def _served(other: Mapping[str, Any]) -> list[Any]:
    names = paths.value(other, ("spec", "model", "servedNames"))
    if isinstance(names, list) and names:
        return names
    return [paths.value(other, ("spec", "model", "id"))]


def _circle(name: str, target: str, known: _Others, now: float | None) -> list[str]:
    """Return the way from a deployment back to itself; empty where there is none."""
    ways = [[name, target]]
    seen = {target}
    while ways:
        way = ways.pop()
        for step in _targets(known.get(way[-1], {}), now):
            if step == name:
                return [*way, step]
            if step not in seen:
                seen.add(step)
                ways.append([*way, step])
    return []


def _own(spec: LLMDeploymentSpec, now: float | None) -> dict[str, str]:
    """Return where the deployment shifts to, by the field that says it."""
    targets = spec.overload.targets()
    if now is not None and lever.held(spec.overload, now) is None:
        targets.pop("override.to", None)
    return targets


def _targets(document: Mapping[str, Any], now: float | None) -> Iterator[str]:
    """Yield where a stored deployment shifts to: by the loop, and by a lever that holds."""
    blocks = ("shift",) if _has_lapsed(document, now) else ("shift", "override")
    for block in blocks:
        target = paths.value(document, ("spec", "overload", block, "to"))
        if isinstance(target, str):
            yield target


def _has_lapsed(document: Mapping[str, Any], now: float | None) -> bool:
    """Tell whether a lever has lapsed; one without an end that can be read may hold."""
    try:
        until = parse_instant(paths.value(document, ("spec", "overload", "override", "until")))
    except ValueError:
        return False
    return now is not None and until.timestamp() <= now
