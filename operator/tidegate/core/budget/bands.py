"""Constants of the budget with their bands, by the engine version that they hold for.

A constant may stand in the data several times: `name` is of the newest engines, and
`name_before_0.21` of those before 0.21 (the smallest such version above the engine's counts).
"""

from collections.abc import Callable
from functools import cache

from tidegate.api.figures import Figure, estimated
from tidegate.facts import budget_terms
from tidegate.facts.budget_terms import Term

NEWEST = ""


def term(name: str, version: str = NEWEST) -> Term:
    """Return a constant as it is for an engine version.

    Raises:
        KeyError: there is no such constant: a bug.
    """
    release = _release(version)
    for before, era in _eras(name):
        if release < before:
            return budget_terms.term(era)
    return budget_terms.term(name)


def spread(
    arithmetic: Callable[[Callable[[str], float]], float], source: str, version: str = NEWEST
) -> Figure:
    """Return the figure of a formula over constants: all at their values, all low, all high.

    `arithmetic` is given a function from a constant's name to a number, and must grow with each.
    """
    likely = arithmetic(lambda name: term(name, version).value)
    low = arithmetic(lambda name: term(name, version).low)
    high = arithmetic(lambda name: term(name, version).high)
    return estimated(round(likely), round(low), round(high), source)


def counts_cuda_graphs(version: str) -> bool:
    """Tell whether the engine takes CUDA graphs out of what it leaves for KV (since 0.21)."""
    return _release(version) >= (0, 21)


def keeps_sampler_state(version: str) -> bool:
    """Tell whether the model runner keeps counts of tokens per sequence (V2, seen in 0.32)."""
    return _release(version) >= (0, 30)


def exports_recurrent_states(version: str) -> bool:
    """Tell whether prefill kernels of gated delta nets hand out states midway (since 0.33)."""
    return _release(version) >= (0, 33)


@cache
def _eras(name: str) -> tuple[tuple[tuple[int, int], str], ...]:
    """Return the versions before which a constant was another one, smallest first."""
    prefix = f"{name}_before_"
    eras = (one for one in budget_terms.term_names() if one.startswith(prefix))
    return tuple(sorted((_release(era.removeprefix(prefix)), era) for era in eras))


@cache
def _release(version: str) -> tuple[int, int]:
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return (999, 0)  # an unreadable version is taken as the newest
