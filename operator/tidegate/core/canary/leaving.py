"""Revisions whose pods are on their way out: they help for as long as those that stay are too weak.

What leaves gets no more requests than it had: one pod of two that was a canary with a twentieth of
them must not have half of them since somebody went back. docs/decisions/0021 says why it is kept.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.core import names
from tidegate.core.canary.state import Leaving, Phase, State
from tidegate.core.canary.targets import WHOLE

_MOST_NOTED = 8


def is_leaving(state: State, revision: str) -> bool:
    """Say whether a revision has no part in the rollout, but pods that are to go or are kept."""
    if names.original_revision(revision) == state.stable:
        return False
    return revision != state.canary or state.phase not in (Phase.CANARY, Phase.PROMOTING)


def most(state: State, revision: str) -> int:
    """Return the share, in thousandths, that a revision may have while another one can serve.

    Of one that is not noted (an older version did not) only a former failure is known.
    """
    if not is_leaving(state, revision):
        return WHOLE
    noted = next((one.share for one in state.leaving if one.revision == revision), None)
    if noted is not None:
        return noted
    return 0 if state.failure_of(revision) is not None else WHOLE


def noted(before: State, after: State, live: Iterable[str], had: Mapping[str, int]) -> State:
    """Return the state with what leaves in it, each with the share that it had before.

    Args:
        before: The state that the shares follow from.
        after: The state that is to hold.
        live: The revisions that have pods.
        had: The shares in thousandths.
    """
    going = sorted(name for name in live if is_leaving(after, name))
    if (before.phase, before.canary) == (after.phase, after.canary):
        kept = tuple(one for one in before.leaving if one.revision in going)
        return replace(after, leaving=kept)
    entries = sorted((Leaving(name, had.get(name, 0)) for name in going), key=lambda of: -of.share)
    return replace(after, leaving=tuple(entries[:_MOST_NOTED]))
