"""Which paths the gate serves, and by which method."""

from tidegate.gate.core import faults
from tidegate.gate.exchange import Ask, Surface

_BY_PATH = {surface.value: surface for surface in Surface}
_ONE_MODEL = Surface.MODELS.value + "/"
_GENERATING = frozenset({Surface.COMPLETIONS, Surface.CHAT, Surface.RESPONSES})
_SPLIT = frozenset({Surface.COMPLETIONS, Surface.CHAT})


def of(path: str) -> Surface | None:
    """Return what a path asks for; None where the gate serves nothing.

    A path has to be spelled as OpenAI spells it: an engine may take `//v1` or `%76` for the same,
    and the gate would not know what it lets through.
    """
    surface = _BY_PATH.get(path)
    if surface is None and path.startswith(_ONE_MODEL) and len(path) > len(_ONE_MODEL):
        return Surface.MODELS
    return surface


def method(surface: Surface) -> str:
    """Return the only method that a surface takes."""
    return "GET" if surface is Surface.MODELS else "POST"


def generates(surface: Surface) -> bool:
    """Tell whether an answer has tokens that the engine makes one by one."""
    return surface in _GENERATING


def can_split(ask: Ask) -> bool:
    """Tell whether a pair can serve a request in two steps; else its decode pod does all.

    A decode engine dies of parameters of another prompt than its own, so there must be one
    prompt; and the first of several answers to it would free the blocks of the others. To score
    a prompt's tokens an engine computes all of them, whatever it could fetch.
    """
    return ask.samples == 1 and ask.surface in _SPLIT and not ask.scores_prompt


def of_request(asked: str, path: str) -> Surface:
    """Return what a method and path ask for; raises `Fault` where that is not served."""
    surface = of(path)
    if surface is None:
        raise faults.not_found(f"There is nothing at this path. Served: {', '.join(_BY_PATH)}.")
    allowed = method(surface)
    if asked != allowed and (asked, allowed) != ("HEAD", "GET"):
        raise faults.wrong_method(f"{surface.value} takes {allowed} only.", allowed)
    return surface
