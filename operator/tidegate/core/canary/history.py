"""The looks at canaries that are kept: bounded in number and bytes, and of garbage none.

They are for people: nothing is decided by them, so that they may be lost at any time. The newest
looks of the last few rollouts stay; the last look of a step outlasts the others, since it is what
the step ended with.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from tidegate.api.rollout_history import MetricLook, RolloutLook
from tidegate.core.analysis.evidence import Measurement, Verdict
from tidegate.core.canary import tell
from tidegate.core.canary.seen import Seen
from tidegate.core.canary.state import State
from tidegate.core.status.conditions import clipped, format_time

KEY = "looks"
"""The key of the ConfigMap: one look a line, the newest last."""
MOST_LOOKS = 40
"""Of one rollout, beside the last of each step: two steps at 20 looks each (`policy.Step`)."""
MOST_ROLLOUTS = 5
MOST_BYTES = 64 * 1024
"""Of all lines: every look writes them anew, and a ConfigMap may have 1 MiB."""
_LONGEST_SENTENCE = 256
_DIGITS = 6

Looks = tuple[RolloutLook, ...]


@dataclass(frozen=True)
class Decoded:
    """What a ConfigMap has: its looks, and how many lines could not be read."""

    looks: Looks = ()
    unreadable: int = 0


def look(state: State, seen: Seen) -> RolloutLook | None:
    """Return the look that `seen` has, at the step of `state`; None where nobody has looked."""
    told = seen.look
    if told is None or state.canary is None:
        return None
    judgement = told.judgement
    silent = Verdict.ERROR if told.trouble else Verdict.INCONCLUSIVE
    return RolloutLook(
        at=format_time(seen.now),
        revision=state.canary,
        stable=state.stable,
        compared_with=state.baseline,
        stretch=state.stretch,
        step=state.step + 1,
        weight_percent=tell.weight_percent(state, seen.policy),
        requests=None if told.requests is None else int(told.requests),
        verdict=(judgement.verdict if judgement else silent).value,
        message=_sentence(judgement.message if judgement else told.trouble),
        metrics=[_metric(one) for one in judgement.measurements] if judgement else [],
    )


def adding(looks: Looks, more: Iterable[RolloutLook]) -> Looks:
    """Return the looks with more of them, each once, within the bounds."""
    known = {(one.at, one.revision): one for one in (*looks, *more)}
    return _pruned(sorted(known.values(), key=lambda one: one.at))


def rollouts(looks: Sequence[RolloutLook]) -> list[list[RolloutLook]]:
    """Return the looks by rollout, in the order of time: one ends where a step is one before."""
    found: list[list[RolloutLook]] = []
    for one in looks:
        last = found[-1][-1] if found else None
        goes_on = last is not None and _of_one_rollout(last, one)
        if goes_on:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def of_rollout(looks: Looks, revision: str, stable: str) -> Looks:
    """Return the looks of the last rollout, if it is of this revision beside that one."""
    last = rollouts(looks)[-1] if looks else []
    is_it = bool(last) and (last[0].revision, last[0].stable) == (revision, stable)
    return tuple(last) if is_it else ()


def encode(looks: Looks) -> dict[str, str]:
    """Return the data of the ConfigMap."""
    return {KEY: "".join(f"{_line(one)}\n" for one in looks)}


def decode(data: object) -> Decoded:
    """Read the data of a ConfigMap; a line that is no look is counted and left out."""
    if data is None:
        return Decoded()
    text = data.get(KEY, "") if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        return Decoded(unreadable=1)
    lines = [line for line in text.split("\n") if line.strip()]
    read = [_decode(line) for line in lines]
    looks = tuple(one for one in read if one is not None)
    return Decoded(looks, len(read) - len(looks))


def _of_one_rollout(before: RolloutLook, after: RolloutLook) -> bool:
    same = (before.revision, before.stable, before.stretch)
    return same == (after.revision, after.stable, after.stretch) and before.step <= after.step


def _pruned(looks: Sequence[RolloutLook]) -> Looks:
    kept = rollouts(looks)[-MOST_ROLLOUTS:]
    few = [one for rollout in kept for one in _newest(rollout)]
    lasts = {id(one) for rollout in kept for one in _lasts(rollout)}
    sizes = {id(one): len(_line(one)) + 1 for one in few}  # ASCII
    over_bytes = sum(sizes.values()) - MOST_BYTES
    gone = set()
    for one in sorted(few, key=lambda one: id(one) in lasts):  # stable: the oldest of each first
        if over_bytes <= 0:
            break
        over_bytes -= sizes[id(one)]
        gone.add(id(one))
    return tuple(one for one in few if id(one) not in gone)


def _newest(rollout: Sequence[RolloutLook]) -> list[RolloutLook]:
    """Return the newest looks of a rollout, and of each step the last."""
    kept = {id(one) for one in (*rollout[-MOST_LOOKS:], *_lasts(rollout))}
    return [one for one in rollout if id(one) in kept]


def _lasts(rollout: Iterable[RolloutLook]) -> list[RolloutLook]:
    return list({one.step: one for one in rollout}.values())


def _metric(one: Measurement) -> MetricLook:
    is_passed = one.verdict is Verdict.PASS
    return MetricLook(
        metric=one.metric.value,
        verdict=one.verdict.value,
        canary=_number(one.canary),
        stable=_number(one.baseline),
        absolute=_number(one.bound.absolute),
        margin=_number(one.bound.margin),
        samples=_number(one.samples) or 0.0,
        stable_samples=_number(one.baseline_samples),
        message=None if is_passed else _sentence(one.message),
    )


def _number(value: float | None) -> float | None:
    """Return a number with the digits that anybody reads; what is none is not known."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def _sentence(text: str) -> str:
    """Return a text of a stranger in one line that can be stored."""
    storable = text.encode(errors="replace").decode()
    return clipped(" ".join(storable.split()), _LONGEST_SENTENCE)


def _line(one: RolloutLook) -> str:
    return json.dumps(one.wire(), separators=(",", ":"))


def _decode(line: str) -> RolloutLook | None:
    if len(line) > MOST_BYTES:
        return None
    try:
        return RolloutLook.model_validate(json.loads(line))
    except (ValueError, RecursionError, ValidationError):
        return None
