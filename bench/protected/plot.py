"""Draws use of the KV cache and shares over time, from the results that a bench wrote.

Usage: python plot.py RESULTS.json PLOT.png

Runs in an environment of its own that has matplotlib; nothing else of the project needs it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt


def main() -> None:
    """Draw one panel for each case, and save them."""
    results = json.loads(Path(sys.argv[1]).read_text())
    runs = results["runs"]
    columns = min(3, len(runs))
    rows = -(-len(runs) // columns)
    figure, panels = plt.subplots(
        rows, columns, squeeze=False, figsize=(5.2 * columns, 3.2 * rows), layout="constrained"
    )
    for panel in panels.flat[len(runs) :]:
        panel.set_visible(False)
    for panel, run in zip(panels.flat, runs, strict=False):
        draw(panel, run, results["enter"], results["exit"])
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"{results['load']:g} times the capacity between the dotted lines")
    figure.savefig(sys.argv[2], dpi=110)


def draw(panel: Any, run: dict[str, Any], enter: float, leave: float) -> None:
    """Draw one case."""
    at = [look["at"] for look in run["looks"]]
    usage = [100 * look["usage"] for look in run["looks"]]
    panel.plot(at, usage, color="0.6", linewidth=0.8, label="KV cache in use, %")
    for name, color in (("shed", "C3"), ("shift", "C0")):
        shares = [look[name] for look in run["looks"]]
        panel.plot(
            at, shares, color=color, linewidth=1.6, drawstyle="steps-post", label=f"{name}, %"
        )
    for threshold in (enter, leave):
        panel.axhline(100 * threshold, color="0.8", linewidth=0.6)
    for edge in (run["begin"], run["end"]):
        panel.axvline(edge, color="black", linewidth=0.8, linestyle=":")
    if run["fault_at"] is not None:
        panel.axvline(run["fault_at"], color="C1", linewidth=1.2, label="the fault")
    panel.set_title(run["name"], fontsize=9)
    panel.set_xlabel("s")
    panel.set_ylim(-3, 103)


if __name__ == "__main__":
    main()
