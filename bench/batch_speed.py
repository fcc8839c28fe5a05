"""How fast `tidegate plan --batch` answers: in the process, and from the shell with its start.

Usage: python -m bench.batch_speed [CASES.jsonl]

Without a file the cases are the committed vectors of the planner, repeated up to 1,000, and then
as many that size the budget too. The baseline, taken in the same run, is reading and writing the
same lines as JSON; the slowest case is given as a ratio to the middle one.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.unit.core.batch.cases import vectors

from bench import figures
from tidegate.core.batch import answer as batch

COUNT = 1000
GOAL_SECONDS = 3.0


def main() -> None:
    """Print cases per second, the slowest case and the time of the whole command."""
    print(figures.load())
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
        report("the file", lines)
        return
    pools = [json.dumps(vector["case"]) for vector in vectors()]
    report("pools", repeated(pools))
    report("budgets", repeated([with_budget(line) for line in pools]))


def repeated(lines: Sequence[str]) -> list[str]:
    """Return `COUNT` lines, in turn from the given ones."""
    return [lines[index % len(lines)] for index in range(COUNT)]


def with_budget(line: str) -> str:
    """Return a case that is sized from the card's memory."""
    case = json.loads(line)
    del case["availableKvBytes"]
    case["gpu"]["memoryBytes"] = 141 * 2**30
    return json.dumps(case)


def report(name: str, lines: Sequence[str]) -> None:
    """Print the figures of some lines."""
    seconds = [timed(lambda line=line: batch.answer(line, 1)) for line in lines]
    baseline = timed(lambda: [json.dumps(json.loads(line)) for line in lines])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = timed(lambda: run(lines))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    total, middle = sum(seconds), figures.percentile(seconds, 0.5)
    print(f"\n{name}: {len(lines)} cases, one core")
    print(f"  in the process   {len(lines) / total:8.0f} cases/s, {total:.2f} s")
    print(f"  each             {figures.spread(seconds)}")
    print(
        f"  slowest          {1e3 * max(seconds):.2f} ms, {figures.ratio(max(seconds), middle)} "
        "of the middle case"
    )
    print(f"  JSON alone       {baseline:.2f} s; answers take {figures.ratio(total, baseline)}")
    verdict = "within" if busy * COUNT / len(lines) < GOAL_SECONDS else "ABOVE"
    print(
        f"  from the shell   {whole:.2f} s with the start, {busy:.2f} s of the core, {verdict} "
        f"{GOAL_SECONDS:g} s for 1,000"
    )


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def run(lines: Sequence[str]) -> None:
    """Answer the lines by the command, bound to one core."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(lines))
        file.flush()
        subprocess.run(
            [sys.executable, "-m", "tidegate", "plan", "--batch", file.name],
            check=True,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        )


if __name__ == "__main__":
    main()
