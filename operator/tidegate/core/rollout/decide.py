"""The decision of one pass: which replicas every slice is asked for now."""

from collections.abc import Collection, Mapping, Sequence

from tidegate.core.rollout import moves, verdict
from tidegate.core.rollout.board import Board
from tidegate.core.rollout.room import Room
from tidegate.core.rollout.slices import Decision, PoolLimits, Slice, Strategy


def decide(
    slices: Sequence[Slice],
    pools: Mapping[str, PoolLimits],
    free_gpus: Mapping[str, int],
    strategy: Strategy,
    revision: str,
    lasting: Collection[str] = (),
) -> Decision:
    """Decide on the replicas of every slice.

    Args:
        slices: Those that are wanted and those that are there.
        pools: The pools of the spec with their limits.
        free_gpus: By node: GPUs that no pod holds, whoever's it is.
        strategy: How old pods are replaced.
        revision: The current revision.
        lasting: Revisions that may get pods again: their slices stay when they are empty, since
            those of a former spec can never be made anew.
    """
    board = Board(slices, pools, revision)
    blocked: list[moves.Blocked] = []
    if strategy == "Recreate":
        _recreate(board)
    elif not any(max(of.asked, of.live) > of.target for of in slices):
        _ask_for_all(board)
    else:
        blocked = _roll(board, Room(free_gpus))
    return Decision(
        replicas={of.name: board.ask[of.name] for of in board.slices},
        delete=tuple(
            of.name for of in board.slices if of.revision not in lasting and _is_done(board, of)
        ),
        state=verdict.state(board, blocked),
        message=verdict.message(board, blocked, Room(free_gpus)),
    )


def _ask_for_all(board: Board) -> None:
    """Nothing is to be replaced: whatever is wanted is asked for, free GPUs or not.

    Beside pods of another revision only what the budget of GPUs leaves: some of them may be on
    their way out still.
    """
    for of in board.slices:
        missing = board.deficit(of)
        left = board.surge_left(of.pool) if board.is_on_budget(of) else missing
        board.ask[of.name] += min(missing, left)


def _recreate(board: Board) -> None:
    """All that is old goes first; new pods come when the last old one is gone."""
    for of in board.slices:
        board.ask[of.name] = min(of.asked, of.target)
    if not any(of.live > of.target or (of.ending and not of.target) for of in board.slices):
        _ask_for_all(board)


def _roll(board: Board, room: Room) -> list[moves.Blocked]:
    """Replace old pods by new ones; return what is blocked when nothing could be done at all."""
    moves.shed(board)
    moves.retire(board)
    moves.withdraw(board, room)
    moves.grow(board, room)
    for blocked in moves.find_blocked(board, room):
        moves.give_way(board, blocked)
    if _moved(board) or moves.starting(board) or moves.leaving(board):
        return []
    stuck = moves.find_blocked(board, room)
    for blocked in stuck:
        # the last resort: nothing else can move, so a pool may be emptied where its own limits
        # allow it, though the other pool's old pods then have no partner until new ones are ready
        moves.give_way(board, blocked, last_resort=True)
    return [] if _moved(board) else stuck


def _moved(board: Board) -> bool:
    return any(board.ask[of.name] != of.asked for of in board.slices)


def _is_done(board: Board, of: Slice) -> bool:
    empty = not (of.asked or board.ask[of.name] or of.live or of.ending)
    return of.exists and empty and not of.target
