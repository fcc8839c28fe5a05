"""Whether a lever is carried out, or was let go of: by what the operator and the gates tell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.levers.lever import moment

_LOOK = "kubectl tidegate runbook OperatorDown says what to look at."


@dataclass(frozen=True)
class Shown:
    """The shares that a gate applies, in percent; None where it gives no answer."""

    name: str
    shed: float | None = None
    shift: float | None = None


@dataclass(frozen=True)
class Holding:
    """What came of it.

    Attributes:
        holds: Every gate does what is asked; None where that is not known.
        told: Why, in words.
        is_over: Nothing is to be waited for any more.
        total, applying: How many gates there are, and do it; None where that is not known.
        silent: The gates that give no answer.
    """

    holds: bool | None
    told: str
    is_over: bool = False
    total: int | None = None
    applying: int | None = None
    silent: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the gates as `--output json` shows them."""
        return {
            "total": self.total,
            "applying": self.applying,
            "silent": list(self.silent),
        }


def of_lever(
    override: Mapping[str, Any], overload: Mapping[str, Any], gates: Sequence[Shown] | None
) -> Holding:
    """Judge whether a lever is carried out.

    Args:
        override: `spec.overload.override` as it was stored.
        overload: `status.overload`.
        gates: All there are; None where nobody can say.
    """
    if not is_taken(override, overload):
        why = f"no operator has taken it over. {_still(overload, gates)}{_LOOK}"
        return _holding(False, f"No gate applies it yet: {why}", gates)
    refused = overload["override"].get("refused")
    if refused:
        why = f"the operator refuses it, for {refused}; the loop decides."
        return _holding(False, f"No gate applies it: {why}", gates, is_over=True)
    if gates is None:
        return Holding(
            None, "The operator has taken it over. Whether the gates apply it is unknown"
        )
    percent = math.ceil(override.get("percent") or 0)
    wanted = tuple(percent if override["action"] == action else 0 for action in ("Shed", "Shift"))
    applying = [gate for gate in gates if (gate.shed, gate.shift) == wanted]
    silent = _silent(gates)
    if not applying or len(applying) + len(silent) < len(gates):
        some = f"{len(applying)} of {len(gates)} gates apply it yet"
        told = f"{some if applying else 'No gate applies it yet'}{_no_answer(silent)}."
        told += f" The operator says: {overload.get('message')}"
        return _holding(False, told, gates, applying)
    if silent:
        told = f"{len(applying)} of {len(gates)} gates apply it{_no_answer(silent)}."
        return _holding(None, told, gates, applying, is_over=True)
    return _holding(True, "The gates apply it.", gates, applying, is_over=True)


def of_letting_go(overload: Mapping[str, Any], gates: Sequence[Shown] | None) -> Holding:
    """Judge whether a lever was let go of: the loop decides, and no gate has more than it says."""
    shares = {key: float(overload.get(key) or 0) for key in ("shedPercent", "shiftPercent")}
    over = [
        gate
        for gate in gates or ()
        if (gate.shed or 0) > shares["shedPercent"] or (gate.shift or 0) > shares["shiftPercent"]
    ]
    if over or not is_let_go(overload):
        still = _still(overload, gates) or "The loop does not decide yet. "
        return _holding(False, f"No operator carries it out yet. {still}{_LOOK}", gates)
    if gates is None:
        return Holding(None, "The loop decides again. Whether the gates follow is unknown")
    silent = _silent(gates)
    following = [gate for gate in gates if gate.shed is not None]
    shed, shift = shares.values()
    told = f"The loop decides: shed {shed:g} %, shift {shift:g} % now{_no_answer(silent)}."
    return _holding(None if silent else True, told, gates, following, is_over=True)


def is_taken(override: Mapping[str, Any], overload: Mapping[str, Any]) -> bool:
    """Tell whether the operator has decided by this very lever, or refused it."""
    told = overload.get("override") or {}
    return (told.get("action"), told.get("reason")) == (
        override["action"],
        override["reason"],
    ) and moment(told.get("until")) == moment(override["until"])


def is_let_go(overload: Mapping[str, Any]) -> bool:
    """Tell whether the operator has decided without a lever."""
    return overload.get("state") != "Override" and not overload.get("override")


def _holding(
    holds: bool | None,
    told: str,
    gates: Sequence[Shown] | None,
    applying: Sequence[Shown] = (),
    is_over: bool = False,
) -> Holding:
    if gates is None:
        return Holding(holds, told, is_over)
    return Holding(holds, told, is_over, len(gates), len(applying), _silent(gates))


def _silent(gates: Sequence[Shown]) -> tuple[str, ...]:
    return tuple(gate.name for gate in gates if gate.shed is None)


def _no_answer(silent: Sequence[str]) -> str:
    if not silent:
        return ""
    give = "gives" if len(silent) == 1 else "give"
    return f"; {len(silent)} {give} no answer ({', '.join(silent)})"


def _still(overload: Mapping[str, Any], gates: Sequence[Shown] | None) -> str:
    """Say what the gates go on doing, and until when; empty where they do nothing."""
    shed = max((gate.shed or 0 for gate in gates or ()), default=0)
    shift = max((gate.shift or 0 for gate in gates or ()), default=0)
    parts = (("turn away", shed), ("shift", shift))
    doing = " and ".join(f"{does} {share:g} %" for does, share in parts if share)
    until = overload.get("until") or "that lapses there"
    return f"The gates still {doing} until {until}. " if doing else ""
