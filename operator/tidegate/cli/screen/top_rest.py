"""What `tidegate top` says of pods that serve nobody: those of which no gate tells, and why."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from tidegate.cli.cluster import untold

_MOST_LINES = 4


def row(pod: Mapping[str, Any], columns: int) -> tuple[str, ...]:
    """Return a pod as a row of the table of pods, whose last column is the state."""
    return (pod["name"], pod["pool"], *("-",) * (columns - 3), pod["state"])


def lines(entry: Mapping[str, Any]) -> list[Text]:
    """Return the same for a screen, each cut to a line and a few at most."""
    pods: Sequence[Mapping[str, Any]] = entry["podsNoGateTellsOf"]
    shown = pods if len(pods) <= _MOST_LINES else pods[: _MOST_LINES - 1]
    told = [f"{pod['name']}  {pod['pool']}  {pod['state']}" for pod in shown]
    if len(pods) > len(shown):
        told.append(f"and {len(pods) - len(shown)} more of which no gate tells")
    cut = [
        Text(line, no_wrap=True, overflow="ellipsis") for line in [*untold.why(entry)[:2], *told]
    ]
    for line in cut:
        line.stylize("yellow")
    return cut
