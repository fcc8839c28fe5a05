"""Draws goodput against load, from the results that a bench wrote.

Usage: python plot.py RESULTS.json PLOT.png

Runs in an environment of its own that has matplotlib; nothing else of the project needs it.
"""

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

OURS = "gate"


def main() -> None:
    """Draw one panel for each mix, and save them."""
    results = json.loads(Path(sys.argv[1]).read_text())
    by_mix: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in results["runs"]:
        by_mix[run["mix"]].append(run)
    columns = min(3, len(by_mix))
    rows = -(-len(by_mix) // columns)
    figure, panels = plt.subplots(
        rows, columns, squeeze=False, figsize=(5.2 * columns, 3.9 * rows), layout="constrained"
    )
    for panel in panels.flat[len(by_mix) :]:
        panel.set_visible(False)
    for panel, (mix, runs) in zip(panels.flat, by_mix.items(), strict=False):
        draw(panel, mix, runs, results["told"].get(mix, ""))
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"Requests per second served within {results['slo_seconds']} s, complete")
    figure.savefig(sys.argv[2], dpi=120)


def draw(panel: Any, mix: str, runs: list[dict[str, Any]], told: str) -> None:
    """Draw the medians of each regime, with the least and the most of the repeats."""
    regimes = list(dict.fromkeys(run["regime"] for run in runs))
    for number, regime in enumerate(regimes):
        points: dict[float, list[float]] = defaultdict(list)
        for run in runs:
            if run["regime"] == regime:
                points[run["load"]].append(run["goodput"])
        loads = sorted(points)
        middle = [statistics.median(points[load]) for load in loads]
        low = [mid - min(points[load]) for mid, load in zip(middle, loads, strict=True)]
        high = [max(points[load]) - mid for mid, load in zip(middle, loads, strict=True)]
        style: dict[str, Any] = {"color": f"C{number}", "linewidth": 1.2}
        if regime == OURS:
            style = {"color": "black", "linewidth": 2.5, "zorder": 3}
        panel.errorbar(loads, middle, [low, high], label=regime, marker="o", ms=3, **style)
    panel.set_title(f"{mix}: {told}" if told and told != mix else mix, fontsize=8)
    panel.set_xlabel("load, times capacity")
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)


if __name__ == "__main__":
    main()
