"""The rollout in words: how far it is, and why it cannot go on."""

from collections.abc import Sequence

from tidegate.core.rollout.board import Board
from tidegate.core.rollout.moves import Blocked
from tidegate.core.rollout.room import Room
from tidegate.core.rollout.slices import Slice, State


def state(board: Board, blocked: Sequence[Blocked]) -> State:
    """Name how far the slices are from what is wanted."""
    if blocked:
        return State.BLOCKED
    surplus = [of for of in board.slices if max(of.asked, of.live) > of.target]
    if surplus:
        replaces = any(of.revision != board.revision for of in surplus) or any(
            board.deficit(of) for of in board.slices
        )
        return State.ROLLING if replaces else State.SCALING
    if any(of.asked != of.target for of in board.slices):
        return State.SCALING if any(of.exists for of in board.slices) else State.STARTING
    settled = all(of.ready >= of.target for of in board.slices)
    return State.SETTLED if settled else State.STARTING


def message(board: Board, blocked: Sequence[Blocked], room: Room) -> str:
    """Say it in a sentence with the numbers."""
    if blocked:
        return "; ".join(_why(board, entry, room) for entry in blocked)
    return ", ".join(_progress(board, name) for name in sorted(board.pools, reverse=True))


def _progress(board: Board, pool: str) -> str:
    wanted = board.pools[pool].replicas
    new = [of for of in board.slices if (of.pool, of.revision) == (pool, board.revision)]
    ready = sum(min(of.ready, of.target) for of in new)
    text = f"{pool}: {ready} of {wanted} {'pod' if wanted == 1 else 'pods'} ready"
    leaving = sum(_leaving(of) for of in board.slices if of.pool == pool)
    return f"{text}, {leaving} to go" if leaving else text


def _leaving(of: Slice) -> int:
    return max(0, max(of.asked, of.live) - of.target)


def _why(board: Board, blocked: Blocked, room: Room) -> str:
    of, limits = blocked.of, board.pools[blocked.of.pool]
    keeps = (
        f"{board.ready_in(of.pool)} pods are ready and {limits.least_ready} of "
        f"{limits.replicas} must stay ready"
    )
    if blocked.by == "surge":
        return (
            f"{of.pool}: {board.held(of.pool)} pods are there, maxSurge allows "
            f"{limits.replicas + limits.surge}, and no old one may go: {keeps}; "
            "raise rollout.maxSurge or rollout.maxUnavailable"
        )
    total, largest = room.on(of.nodes)
    return (
        f"{of.pool}: a pod of revision {of.revision} needs {of.gpus} "
        f"{'GPU' if of.gpus == 1 else 'GPUs'} on one node; its {len(of.nodes)} nodes have {total} "
        f"free, at most {largest} on one; no old pod may give way: {keeps}; free the GPUs, or "
        "raise rollout.maxUnavailable"
    )
