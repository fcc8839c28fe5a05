"""Constants of the budget with their bands, and the engine versions that they hold for."""

from collections.abc import Callable

from tidegate.api.figures import Figure, estimated
from tidegate.facts import budget_terms
from tidegate.facts.budget_terms import Term


def spread(
    arithmetic: Callable[[Callable[[str], float]], float], source: str, floor: int = 0
) -> Figure:
    """Return the figure of a formula over terms: all at their values, all low, all high.

    `arithmetic` is given a function from a term's name to a number, and must grow with each term.
    """
    likely = arithmetic(lambda name: budget_terms.term(name).value)
    low = arithmetic(lambda name: budget_terms.term(name).low)
    high = arithmetic(lambda name: budget_terms.term(name).high)
    return estimated(
        max(floor, round(likely)), max(floor, round(low)), max(floor, round(high)), source
    )


def sampler_term(version: str) -> Term:
    """Return what the sampler takes for each logit in an engine version; it shrank twice."""
    release = _release(version)
    if release < (0, 11):
        return budget_terms.term("samplerBytesPerLogitBefore0.11")
    if release < (0, 21):
        return budget_terms.term("samplerBytesPerLogitBefore0.21")
    return budget_terms.term("samplerBytesPerLogit")


def counts_cuda_graphs(version: str) -> bool:
    """Tell whether the engine takes CUDA graphs out of what it leaves for KV (since 0.21)."""
    return _release(version) >= (0, 21)


def keeps_sampler_state(version: str) -> bool:
    """Tell whether the engine's model runner keeps counts per sequence (runner V2)."""
    return _release(version) >= (0, 30)


def _release(version: str) -> tuple[int, int]:
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return (999, 0)  # an unreadable version is taken as the newest
