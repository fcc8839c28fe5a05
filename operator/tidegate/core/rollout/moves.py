"""The steps of a rolling update, each on the board; `decide` says in which order they are taken."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tidegate.core import names
from tidegate.core.rollout.board import Board
from tidegate.core.rollout.room import Room
from tidegate.core.rollout.slices import Slice


@dataclass(frozen=True)
class Blocked:
    """New pods that cannot be asked for now, though nothing that is under way will change that."""

    of: Slice
    pods: int
    by: Literal["room", "surge"]


def shed(board: Board) -> None:
    """Let old pods go that do not serve: they cost nothing.

    One is kept where it is the last of its pool and would, once ready again, make a pair with
    ready pods of its revision: a short hiccup of a lone prefill pod must not end its decode pods.
    """
    for of in board.slices:
        drop = min(board.surplus(of), board.unready(of))
        if drop and drop == board.asked_in(of.pool, of.revision) and _partner_is_ready(board, of):
            drop -= 1
        board.ask[of.name] -= drop


def _partner_is_ready(board: Board, of: Slice) -> bool:
    others = board.pools_of(of.revision) - {of.pool}
    return of.revision != board.revision and any(
        board.ready_in(other, {of.revision}) for other in others
    )


def retire(board: Board) -> None:
    """Let ready old pods go that are no longer needed: every pool keeps all its replicas ready."""
    while True:
        spare = next(
            (
                of
                for of in _by_worth(board)
                if board.surplus(of) and board.ready(of) and board.can_spare(of, board.full)
            ),
            None,
        )
        if spare is None:
            return
        board.ask[spare.name] -= 1


def withdraw(board: Board, room: Room) -> None:
    """Take back new pods that have no node and no room: a waiting pod holds up the rollout.

    What stays takes its room, so that no other slice is promised the same GPUs.
    """
    wanted = [of for of in board.slices if of.target]
    for of in sorted(wanted, key=lambda of: names.is_baseline(of.revision)):
        bound = min(of.bound, board.ask[of.name])
        board.ask[of.name] = bound + room.take(of.nodes, of.gpus, board.ask[of.name] - bound)


def grow(board: Board, room: Room) -> None:
    """Ask for new pods where GPUs are free, the least advanced pool first, within the surge."""
    open_slices = [of for of in board.slices if board.deficit(of)]
    while open_slices:
        open_slices.sort(key=lambda of: _urgency(board, of))
        grown = next((of for of in open_slices if _grow_by_one(board, room, of)), None)
        if grown is None:
            return
        open_slices = [of for of in open_slices if board.deficit(of)]


def _grow_by_one(board: Board, room: Room, of: Slice) -> bool:
    if not board.surge_left(of.pool) or not room.take(of.nodes, of.gpus, 1):
        return False
    board.ask[of.name] += 1
    return True


def _urgency(board: Board, of: Slice) -> tuple[bool, float, int, str, bool, str]:
    """Order pools: one that misses pods first, so that it gets back the GPU that it gave.

    Of equals the smaller one: a pool's only pod cannot give way to a canary's.
    In a pool a canary's baseline comes last: without it nobody is served worse.
    """
    replicas = board.pools[of.pool].replicas
    progress = board.asked_in(of.pool, board.revision) / max(1, replicas)
    is_last = names.is_baseline(of.revision)
    return (not _is_short(board, of.pool), progress, replicas, of.pool, is_last, of.name)


def _is_short(board: Board, pool: str) -> bool:
    return board.held(pool) < board.pools[pool].replicas


def starting(board: Board) -> bool:
    """Say whether a new pod is on its way: asked for, and not refused by the scheduler."""
    return any(board.unready(of) > of.refused for of in board.slices if of.target)


def leaving(board: Board) -> bool:
    """Say whether pods are on their way out."""
    return any(of.ending or of.live > board.ask[of.name] for of in board.slices)


def find_blocked(board: Board, room: Room) -> list[Blocked]:
    """Return the new pods that will not come by waiting for what is under way."""
    coming: dict[str, int] = {}
    for of in board.slices:
        for node, pods in of.ending_on.items():
            coming[node] = coming.get(node, 0) + pods * of.gpus
    ahead = room.with_more(coming)
    wanted = sorted((of for of in board.slices if of.target), key=lambda of: _urgency(board, of))
    return [blocked for of in wanted if (blocked := _blocked(board, ahead, of))]


def _blocked(board: Board, ahead: Room, of: Slice) -> Blocked | None:
    wanted = board.deficit(of)
    refused = min(of.refused, board.unready(of))
    if not wanted + refused:
        return None
    patient = board.pools[of.pool].surge and not _is_short(board, of.pool)
    if patient and (starting(board) or leaving(board)):
        return None  # no pod of this pool is missing, and what is under way will make room
    allowed = board.surge_left(of.pool)
    if wanted and not allowed:
        return None if _leaves_pool(board, of.pool) else Blocked(of, wanted, "surge")
    wanted = min(wanted, allowed)
    wanted -= ahead.take(of.nodes, of.gpus, wanted)
    if not wanted + refused or _leaves_nodes(board, of.nodes):
        return None
    return Blocked(of, wanted + refused, "room")


def _leaves_pool(board: Board, pool: str) -> bool:
    return any(of.pool == pool and of.live > board.ask[of.name] for of in board.slices)


def _leaves_nodes(board: Board, nodes: frozenset[str]) -> bool:
    return any(of.live > board.ask[of.name] and of.holding & nodes for of in board.slices)


def give_way(board: Board, blocked: Blocked, *, last_resort: bool = False) -> None:
    """Let old pods go in whose place the blocked ones can come, down to the least of each pool.

    As a last resort also where that leaves the other pool's old pods without a partner.
    """
    needed = blocked.pods * blocked.of.gpus
    while needed > 0:
        found = next(_ways(board, blocked, last_resort), None)
        if found is None:
            return
        board.ask[found.name] -= 1
        needed -= found.gpus if blocked.by == "room" else blocked.of.gpus


def _ways(board: Board, blocked: Blocked, last_resort: bool) -> Iterator[Slice]:
    own = blocked.of.pool
    for of in sorted(_by_worth(board), key=lambda of: of.pool != own):
        in_place = of.pool == own if blocked.by == "surge" else of.holding & blocked.of.nodes
        if in_place and board.surplus(of) and _may_give_way(board, of, last_resort):
            yield of


def _may_give_way(board: Board, of: Slice, last_resort: bool) -> bool:
    if board.unready(of):
        return last_resort or not _partner_is_ready(board, of)
    if of.pool not in board.pools and (starting(board) or leaving(board)):
        return False  # a pool that left the spec has no limits of its own: one pod at a time
    floor = board.bare if last_resort else board.least
    return board.can_spare(of, floor, pairs_matter=not last_resort)


def _by_worth(board: Board) -> list[Slice]:
    """The slices, those first whose pods serve least: not ready, of a revision without its pair."""
    complete = board.complete()
    return sorted(
        board.slices,
        key=lambda of: (not board.unready(of), of.revision in complete, of.pool, of.name),
    )
