"""Goodput under overload: the gate beside no gate, vLLM's own limit, fixed caps and vllm-router.

Usage: python -m bench.gate_goodput [--quick] [--engine double|vllm] [--mixes A,B,...]
           [--loads 0.5,1,2,3] [--repeats 3] [--seconds 20] [--output FOLDER]

Clients arrive by themselves (Poisson), whatever becomes of those before them, and stream. Goodput
is requests per second whose first token came within the SLO and which were answered to the end.
All regimes take turns in front of the same engines with the same requests. The load is in times
of the capacity, which is measured first: the most that the engine completes at any concurrency.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import figures
from bench.goodput import clients, engines, mixes, regimes, report, score, venvs
from bench.goodput.capacity import completed
from bench.goodput.mixes import Mix, Shape
from bench.goodput.regimes import Regime
from bench.goodput.report import Run

MATPLOTLIB = "matplotlib==3.11.2"
CONCURRENCIES = (4, 8, 16, 32)
LEAST_SECONDS = 4.0
"""In less than that the capacity is not seen."""
PATIENCE_SECONDS = 20.0
WARM_SHARE = 0.2
"""Clients come this share of a run before what counts: nobody is at once where it will be."""


@dataclass(frozen=True)
class Plan:
    """What is run."""

    engine: str
    mixes: Sequence[str]
    loads: Sequence[float]
    caps: Sequence[int]
    repeats: int
    seconds: float
    slo_seconds: float


FULL = Plan("double", tuple(mixes.MIXES), (0.5, 1, 2, 3), regimes.CAPS, 3, 20, 0.7)
QUICK = Plan("double", ("A",), (1, 3), (8, 16), 1, 6, 0.7)


def main() -> int:
    """Print every table, then the goals; fail when one is missed."""
    options = _parser().parse_args()
    plan = _plan(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no process is left behind
    print(
        f"engine {plan.engine}, SLO {plan.slo_seconds} s of TTFT,"
        f" {plan.repeats} x {plan.seconds:g} s"
    )
    print(figures.load())
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in plan.mixes:
            some = asyncio.run(_mix(plan, mixes.MIXES[name], Path(folder)))
            report.table(some)
            runs += some
    is_met = report.verdict(runs, plan.slo_seconds)
    print(figures.load())
    _write(plan, runs, options.output)
    return 0 if is_met else 1


async def _mix(plan: Plan, mix: Mix, place: Path) -> list[Run]:
    """Measure one mix with engines of its own."""
    found, left_out = regimes.regimes(plan.caps, mix.kv_times, plan.slo_seconds)
    if left_out:
        print(left_out)
    runs = []
    with ExitStack() as stack:
        urls = {
            limit: stack.enter_context(engines.engine(plan.engine, place, mix.kv_times, limit))
            for limit in dict.fromkeys(regime.max_queued for regime in found)
        }
        capacity = {
            shape.name: await _capacity(urls[None], shape, plan.seconds) for shape in mix.shapes
        }
        print(f"\ncapacity: {', '.join(f'{n} {c:.2f} requests/s' for n, c in capacity.items())}")
        for repeat in range(plan.repeats):
            for load in plan.loads:
                for regime in found:
                    engine = urls[regime.max_queued]
                    got = await _run(plan, mix, load, capacity, repeat, regime, engine, place)
                    runs.append(Run(mix.name, load, regime.name, repeat, got))
    return runs


async def _run(
    plan: Plan,
    mix: Mix,
    load: float,
    capacity: Mapping[str, float],
    repeat: int,
    regime: Regime,
    engine: str,
    place: Path,
) -> score.Score:
    """Put a load on one regime."""
    warm = WARM_SHARE * plan.seconds
    requests = mixes.arrivals(mix, load, capacity, warm + plan.seconds, repeat)
    with regimes.started(regime, engine, place) as url:
        await engines.until_idle(engine)
        before = engines.preemptions(engine)
        visits = await clients.offer(
            url,
            requests,
            repeat,
            slo_seconds=plan.slo_seconds,
            patience_seconds=PATIENCE_SECONDS,
            returns=mix.returns,
        )
        ended = time.monotonic()
        await engines.until_idle(engine)
    preempted = engines.preemptions(engine) - before
    return score.score(visits, warm, plan.seconds, plan.slo_seconds, preempted, ended)


async def _capacity(url: str, shape: Shape, seconds: float) -> float:
    """Return requests per second at the concurrency that completes most."""
    measured = max(LEAST_SECONDS, seconds / 3)
    return max(
        [
            await completed(url, shape, count, warm_up_seconds=measured / 2, seconds=measured)
            for count in CONCURRENCIES
        ]
    )


def _write(plan: Plan, runs: Sequence[Run], folder: Path) -> None:
    """Keep the results, and draw them."""
    folder.mkdir(parents=True, exist_ok=True)
    results, plot = folder / "goodput.json", folder / "goodput.png"
    flat = [{**asdict(run), **asdict(run.score)} for run in runs]
    document = {"slo_seconds": plan.slo_seconds, "told": mixes.TOLD, "runs": flat}
    results.write_text(json.dumps(document, indent=1))
    print(f"results: {results}")
    python = venvs.tool("plot", MATPLOTLIB, "python")
    if isinstance(python, str):
        print(f"no plot: {python}")
        return
    script = str(Path(venvs.__file__).with_name("plot.py"))
    subprocess.run([str(python), script, str(results), str(plot)], check=True)
    print(f"plot: {plot}")


def _plan(options: argparse.Namespace) -> Plan:
    base = QUICK if options.quick else FULL
    given = {
        name: value
        for name, value in vars(options).items()
        if value is not None and name in Plan.__dataclass_fields__
    }
    return Plan(**{**vars(base), **given})


def _names(text: str) -> Sequence[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in mixes.MIXES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is no mix; known: {list(mixes.MIXES)}")
    return names


def _numbers(text: str) -> Sequence[float]:
    return [float(part) for part in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure goodput under overload.")
    parser.add_argument("--quick", action="store_true", help="mix A, once, two minutes")
    parser.add_argument("--engine", choices=("double", "vllm"))
    parser.add_argument("--mixes", type=_names, help=f"of {','.join(mixes.MIXES)}")
    parser.add_argument("--loads", type=_numbers, help="times capacity")
    parser.add_argument("--caps", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--seconds", type=float, help="of each run that count")
    parser.add_argument("--slo", type=float, dest="slo_seconds", help="seconds of TTFT")
    parser.add_argument("--output", type=Path, default=Path("build/goodput"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
