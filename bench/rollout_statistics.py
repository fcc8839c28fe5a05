"""What a canary's analysis is worth: false aborts and what is found, over simulated rollouts.

Usage: python -m bench.rollout_statistics [--rollouts N] [--seed TEXT] [--processes N] [--only WORD]

For each load N rollouts of an equal canary, and a fifth of N for each fault. The same faults are
judged by a threshold as users write it (see `bench.rollouts.policy`).
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat

from bench import figures
from bench.rollouts import policy
from bench.rollouts.policy import Ended
from bench.rollouts.traffic import EQUAL, Fault, Load
from tidegate.core.analysis import limits

LOADS = (
    Load("50/s", 50, (5, 25, 50)),
    Load("10/s", 10, (10, 25, 50)),
    Load("1/s", 1, (25, 50)),
    Load("10/s, bursty", 10, (10, 25, 50), "bursty"),
    Load("10/s, drifting", 10, (10, 25, 50), "drifting"),
)
FAULTS = (
    Fault("TTFT +20 %", ttft=1.2),
    Fault("TPOT +10 %", tpot=1.1),
    Fault("survival 97 %", failures=0.03),
    Fault("OOM on 1 % of prompts", out_of_memory=0.01),
    Fault("preemptions doubled", preemptions=2.0),
    Fault("memory +8 % an hour", growth_percent_per_hour=8.0),
)
MILD = (Fault("TTFT +5 %", ttft=1.05), Fault("TPOT +2.5 %", tpot=1.025))
FALSE_ABORTS, FOUND = 0.01, 0.95
FAULTS_SHARE = 5


@dataclass(frozen=True)
class Cell:
    """Rollouts of one load and fault: ours, and those of a threshold."""

    load: Load
    fault: Fault
    ours: Sequence[Ended]
    threshold: Sequence[Ended]


def main() -> None:
    """Print the table, and what it says of the goals."""
    options = _options()
    begun = time.monotonic()
    print(HEAD)
    cells = []
    with ProcessPoolExecutor(options.processes) as pool:
        for fault in (EQUAL, *FAULTS, *MILD):
            number = options.rollouts if fault is EQUAL else options.rollouts // FAULTS_SHARE
            for load in LOADS:
                if options.only and options.only not in f"{fault.name} {load.name}":
                    continue
                cell = _cell(pool, load, fault, number, options.seed)
                print(_row(cell), flush=True)
                cells.append(cell)
    _goals(cells)
    print(f"\n{time.monotonic() - begun:.0f} s; {figures.load()}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rollouts", type=int, default=300, help="of an equal canary at each load")
    parser.add_argument("--seed", default="tidegate")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="cells with this in their name")
    return parser.parse_args()


def _cell(pool: ProcessPoolExecutor, load: Load, fault: Fault, number: int, seed: str) -> Cell:
    seeds = [f"{seed} {load.name} {fault.name} {index}" for index in range(number)]

    def run(judge: Callable[[str, Load, Fault], Ended]) -> list[Ended]:
        return list(pool.map(judge, seeds, repeat(load), repeat(fault), chunksize=5))

    return Cell(load, fault, run(policy.tidegate), run(policy.threshold))


HEAD = (
    f"{'canary':<22} {'load':<15} {'aborted':>8} {'promoted':>8} {'waiting':>8} "
    f"{'requests':>9} {'minutes':>8} {'p90':>6} {'touched':>8} {'threshold':>10}  by"
)


def _row(cell: Cell) -> str:
    """Return a line: shares of ends, and for those that matter what they took, in the middle."""
    ends = Counter(one.end for one in cell.ours)
    decided = [one for one in cell.ours if one.end == ("promoted" if _is_good(cell) else "aborted")]
    number = max(1, len(cell.ours))
    took = "-" * 3
    cost = f"{took:>9} {took:>8} {took:>6} {took:>8}"
    if decided:
        minutes = [one.seconds / 60 for one in decided]
        touched = [one.canary_requests / one.requests for one in decided]
        cost = (
            f"{figures.percentile([one.canary_requests for one in decided], 0.5):>9,.0f} "
            f"{figures.percentile(minutes, 0.5):>8.0f} {figures.percentile(minutes, 0.9):>6.0f} "
            f"{figures.percentile(touched, 0.5):>8.1%}"
        )
    because = Counter(metric for one in cell.ours for metric in one.because).most_common(3)
    return (
        f"{cell.fault.name:<22} {cell.load.name:<15} {ends['aborted'] / number:>8.1%} "
        f"{ends['promoted'] / number:>8.1%} {ends['waiting'] / number:>8.1%} {cost} "
        f"{_aborted(cell.threshold):>10.1%}  {', '.join(metric for metric, _ in because)}"
    )


def _goals(cells: Sequence[Cell]) -> None:
    """Print the goals with what was found; limits hold with 95 % confidence."""
    for cells_of, name in ((_equal(cells), "false aborts"), (_faulty(cells), "found")):
        ours = [one for cell in cells_of for one in cell.ours]
        theirs = [one for cell in cells_of for one in cell.threshold]
        if not ours:
            continue
        aborted = sum(one.end == "aborted" for one in ours)
        sure = limits.of_share(aborted, len(ours))
        worst = min(cells_of, key=lambda cell: _aborted(cell.ours))
        goal = f"at most {FALSE_ABORTS:.0%}" if name == "false aborts" else f"{FOUND:.0%} each"
        least = (
            ""
            if name == "false aborts"
            else (f", least {_aborted(worst.ours):.1%} ({worst.fault.name} at {worst.load.name})")
        )
        print(
            f"\n{name}: {aborted} of {len(ours)} = {sure.value:.2%} "
            f"({sure.low:.2%} to {sure.high:.2%}){least}; goal {goal}; "
            f"threshold {_aborted(theirs):.1%}"
        )


def _equal(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.fault is EQUAL]


def _faulty(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if not _is_good(cell)]


def _is_good(cell: Cell) -> bool:
    return cell.fault is EQUAL or cell.fault in MILD


def _aborted(ended: Sequence[Ended]) -> float:
    return sum(one.end == "aborted" for one in ended) / max(1, len(ended))


if __name__ == "__main__":
    main()
