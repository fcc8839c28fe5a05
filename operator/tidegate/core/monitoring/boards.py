"""All dashboards."""

from tidegate.core.monitoring import deployment_board, fleet_board, gate_board, rollout_board
from tidegate.core.monitoring.board import Board


def boards() -> tuple[Board, ...]:
    """Return the dashboards."""
    return (
        fleet_board.board(),
        deployment_board.board(),
        gate_board.board(),
        rollout_board.board(),
    )
