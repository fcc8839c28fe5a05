"""What the slow loop adds to the gate under overload, and what it does when its data fail.

Usage: python -m bench.protection [--quick] [--engine double|vllm] [--cases A,B,...] [--load 3]
           [--seconds 120] [--rest 360] [--tick 1] [--output FOLDER]

Real engines or doubles, real gates, a real Prometheus and the operator's own tick, port and
decision, on loopback. A quiet time, then several times the capacity, then a quiet time until all
is let go. Classes of the clients: 9 (one in five), 5 and 2. No figure is asserted but the rules
that hold on any machine: no request of the top class is shed, and no share grows without data.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from e2e.engine import metrics

from bench import figures
from bench.goodput import clients, mixes, venvs
from bench.goodput.capacity import completed
from bench.goodput.mixes import Request
from bench.protected import score, stage
from bench.protected.lies import Lie
from bench.protected.loop import Loop
from bench.protected.score import Look, Score
from bench.protected.stage import LOW, MIDDLE, NAME, OTHER, TOP, Deployment

MATPLOTLIB = "matplotlib==3.11.2"
RESULTS = "protection.json"
CLASSES = (TOP, MIDDLE, MIDDLE, LOW, LOW)
SHAPE = mixes.A
SLO_SECONDS = 1.0
QUIET_LOAD = 0.3
QUIET_SECONDS = 6.0
LOOK_SECONDS = 0.25
CONCURRENCY = 16
CAPACITY_SECONDS = 6.0
KV = {"enter": 0.6, "exit": 0.45}
"""Lower than the defaults: the gates' own budget keeps engines of this size under 0.9."""
TIMES: dict[str, str] = {"enterAfter": "0s", "exitAfter": "10s", "holdFor": "30s"}


@dataclass(frozen=True)
class Case:
    """What is tried.

    Attributes:
        name: What the table calls it.
        scrape_seconds: How often Prometheus scrapes; None: no loop.
        shifts: Whether another deployment may take a share.
        dies: Whether Prometheus is killed in the middle of the overload.
        lie: What becomes of the engine's metric there.
    """

    name: str
    scrape_seconds: float | None = 1.0
    shifts: bool = False
    dies: bool = False
    lie: Lie = ""


CASES = (
    Case("no loop", None),
    Case("scrape 1 s"),
    Case("scrape 5 s", 5.0),
    Case("scrape 15 s", 15.0),
    Case("shift", shifts=True),
    Case("Prometheus killed", dies=True),
    Case("metric NaN", lie="nan"),
    Case("metric stuck", lie="stuck"),
    Case("metric 5 min old", lie="old"),
)
QUICK = ("no loop", "scrape 1 s", "Prometheus killed")
QUICK_SECONDS, QUICK_REST_SECONDS = 20.0, 12.0
"""Too short for the share to go back: a dash is shown for that."""


@dataclass(frozen=True)
class Plan:
    """How it is run; `rest_seconds` is how long the share may take to go back."""

    engine: str = "double"
    load: float = 3.0
    seconds: float = 120.0
    rest_seconds: float = 150.0
    tick_seconds: float = 1.0


@dataclass(frozen=True)
class Run:
    """One case as it went, `is_silent` without Prometheus from the fault on; times in seconds."""

    name: str
    begin: float
    end: float
    fault_at: float | None
    is_silent: bool
    score: Score
    looks: Sequence[Look]


def main() -> int:
    """Print the table; fail where a rule was broken that holds on any machine."""
    options = _parser().parse_args()
    plan = Plan(options.engine, options.load, options.seconds, options.rest, options.tick)
    if options.quick:
        plan = replace(plan, seconds=QUICK_SECONDS, rest_seconds=QUICK_REST_SECONDS)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process is left behind
    names = options.cases or (QUICK if options.quick else [case.name for case in CASES])
    print(f"engine {plan.engine}, {plan.load:g} times its capacity, tick {plan.tick_seconds:g} s")
    print(figures.load(), flush=True)
    runs = []
    for case in CASES:
        if case.name in names:
            with tempfile.TemporaryDirectory() as folder:
                runs.append(asyncio.run(_run(case, plan, Path(folder))))
            _tell(runs[-1], is_first=len(runs) == 1)
            _keep(plan, runs, options.output)  # a run takes long, and may be broken off
    print(figures.load())
    _draw(options.output)
    return 1 if any(map(_breaks_a_rule, runs)) else 0


async def _run(case: Case, plan: Plan, place: Path) -> Run:
    """Run one case from nothing."""
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(
            stage.deployments(plan.engine, place, SLO_SECONDS, both=case.shifts)
        )
        capacity = await completed(
            made[0].engine,
            SHAPE,
            CONCURRENCY,
            warm_up_seconds=CAPACITY_SECONDS / 3,
            seconds=CAPACITY_SECONDS,
        )
        if case.scrape_seconds is None:
            return await _drive(case, plan, made, capacity, None, lambda: None)
        server = stack.enter_context(stage.prometheus(made, case.scrape_seconds))
        overloads = {one.name: _overload(case, one) for one in made}
        loop = Loop(made, overloads, server.url, case.scrape_seconds, plan.tick_seconds)

        def fault() -> None:
            if case.dies:
                server.process.kill()
            made[0].exposition.lie = case.lie

        return await _drive(case, plan, made, capacity, loop, fault)


def _overload(case: Case, one: Deployment) -> dict[str, Any]:
    """Return `spec.overload` of a deployment of a case."""
    may = {"actions": ["Shift", "Shed"], "shift": {"to": OTHER}}
    shifts = may if case.shifts and one.name == NAME else {"actions": ["Shed"]}
    return {"kvUsage": KV, **TIMES, **shifts}


async def _drive(
    case: Case,
    plan: Plan,
    made: Sequence[Deployment],
    capacity: float,
    loop: Loop | None,
    fault: Any,
) -> Run:
    """Send the clients and watch."""
    begun = time.monotonic()
    looks: list[Look] = []
    tasks = [asyncio.create_task(_watch(made[0], loop, begun, looks))]
    if loop is not None:
        tasks.append(asyncio.create_task(loop.run()))
    has_fault = loop is not None and (case.dies or bool(case.lie))
    fault_at = QUIET_SECONDS + plan.seconds / 2
    if has_fault:
        asyncio.get_running_loop().call_later(fault_at, fault)
    requests = _requests(plan, capacity, plan.rest_seconds if loop else 0.0)
    visits = await clients.offer(
        made[0].url, requests, 1, slo_seconds=SLO_SECONDS, patience_seconds=5.0, keep_alive=False
    )
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    begin, end = QUIET_SECONDS, QUIET_SECONDS + plan.seconds
    got = score.score(looks, visits, KV["enter"], begin, end, SLO_SECONDS)
    return Run(case.name, begin, end, fault_at if has_fault else None, case.dies, got, looks)


def _requests(plan: Plan, capacity: float, rest_seconds: float) -> list[Request]:
    """Draw the clients: quiet, too many, quiet."""
    dice = random.Random(1)
    begin, end = QUIET_SECONDS, QUIET_SECONDS + plan.seconds
    found: list[Request] = []
    at = 0.0
    while at < end + rest_seconds:
        load = plan.load if begin <= at < end else QUIET_LOAD
        at += dice.expovariate(load * capacity)
        drawn = mixes.draw(SHAPE, dice, at)
        found.append(replace(drawn, priority=CLASSES[len(found) % len(CLASSES)]))
    return found


async def _watch(one: Deployment, loop: Loop | None, begun: float, looks: list[Look]) -> None:
    """Note what engine and gate say themselves, until cancelled."""
    while True:
        told = await asyncio.to_thread(metrics.scrape, one.engine)
        usage = told.value("vllm:kv_cache_usage_perc")
        shed, shift = await asyncio.to_thread(one.shares)
        if usage is not None:
            data = loop.told(one.name) if loop else ""
            looks.append(Look(time.monotonic() - begun, usage, shed, shift, data))
        await asyncio.sleep(LOOK_SECONDS)


def _tell(run: Run, *, is_first: bool) -> None:
    """Print a row of the table."""
    if is_first:
        classes = "".join(f"  class {priority}" + " " * 6 for priority in (TOP, MIDDLE, LOW))
        print(
            f"\n{'':18} {'to 1st':>7} {'turns':>6} {'let go':>7} {'most':>5}{classes}  lost  blind"
        )
    got = run.score
    served = "".join(
        f"  {got.goodput[priority]:5.2f}/{got.asked[priority]:5.2f}" + " " * 3
        for priority in got.goodput
    )
    blind = "-" if got.blind_percent is None else "{:.0f}-{:.0f} %".format(*got.blind_percent)
    print(
        f"{run.name:18} {_seconds(got.first_seconds):>7} {got.turns:6.1f} "
        f"{_seconds(got.let_go_seconds):>7} {got.most_percent:4.0f}%{served} {got.top_shed:5}"
        f"  {blind}",
        flush=True,
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _breaks_a_rule(run: Run) -> bool:
    """Tell whether the top class lost a request, or a share grew while nothing was known."""
    lost, grew = run.score.top_shed, None
    if run.is_silent and run.fault_at is not None:
        grew = score.grew(run.looks, run.fault_at)
    if lost:
        print(f"{run.name}: {lost} requests of the top class were shed")
    if grew:
        print(f"{run.name}: the share grew without data, to {grew:.0f} %")
    return bool(lost or grew)


def _keep(plan: Plan, runs: Sequence[Run], folder: Path) -> None:
    """Write the results so far."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**KV, "load": plan.load, "runs": [asdict(run) for run in runs]}
    (folder / RESULTS).write_text(json.dumps(document, indent=1))


def _draw(folder: Path) -> None:
    """Draw the results."""
    results, plot = folder / RESULTS, folder / "protection.png"
    print(f"results: {results}")
    python = venvs.tool("plot", MATPLOTLIB, "python")
    if isinstance(python, str):
        print(f"no plot: {python}")
        return
    script = str(Path(stage.__file__).with_name("plot.py"))
    subprocess.run([str(python), script, str(results), str(plot)], check=True)
    print(f"plot: {plot}")


def _names(text: str) -> list[str]:
    known = [case.name for case in CASES]
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no case; known: {known}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure what the overload loop protects.")
    parser.add_argument("--quick", action="store_true", help="three cases in three minutes")
    parser.add_argument("--engine", choices=("double", "vllm"), default="double")
    parser.add_argument("--cases", type=_names, help=f"of {', '.join(c.name for c in CASES)}")
    parser.add_argument("--load", type=float, default=3.0, help="times the capacity")
    parser.add_argument("--seconds", type=float, default=120.0, help="of overload")
    parser.add_argument("--rest", type=float, default=360.0, help="seconds for letting go")
    parser.add_argument("--tick", type=float, default=1.0, help="seconds between looks of the loop")
    parser.add_argument("--output", type=Path, default=Path("artifacts/protection"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
