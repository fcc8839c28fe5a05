"""What the gate costs: its CPU for requests and for chunks, its latency, its memory.

Usage: python -m bench.gate_cost [--repeats 3] [--seconds 4] [--router PATH]

Side by side in one run, each as a process of its own in front of the same mock engine: no relay,
the gate with its whole core, a bare relay of aiohttp on uvloop, and vllm-router (Rust) where it
is given or installed. Engine and generator are in C (`gate_load/`), so that the relay is what
is measured. Throughput is per second of the relay's own CPU time, which a busy machine moves
least; latencies are wall time. The relays take turns; medians of the repeats are shown.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.double.process import free_port

from bench import figures

HERE = Path(__file__).parent / "gate_load"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tidegate" / "bench"
ROUTER = CACHE / "vllm-router" / "bin" / "vllm-router"
START_SECONDS = 120.0
"""On a busy machine a Python process takes half a minute until it serves."""
FIRST_ANSWER_SECONDS = 10.0
TICKS = os.sysconf("SC_CLK_TCK")
ENDLESS = 10_000_000

PER_CPU_GOAL = 1.0
"""Times the requests and the chunks that another relay does in a second of its CPU, at least."""
CHUNK_P99_GOAL = 1.0
"""Times another relay's p99 of a chunk, at most."""
ADDED_P50_GOAL_MS = 0.5
MEMORY_GOAL_MIB = 150.0
STREAMS = 2000


@dataclass(frozen=True)
class Load:
    """One kind of load, as `load.c` and `engine.c` take it."""

    name: str
    kind: str
    connections: int
    per_second: float = 0.0


LOADS = (
    Load("requests, 32 connections at full speed", "post", 32),
    Load("requests, one after the other", "post", 1),
    Load("chunks, 32 streams x 50/s", "stream", 32, 50),
    Load("chunks, 1,000 streams x 25/s", "stream", 1000, 25),
)


@dataclass(frozen=True)
class Measured:
    """What one load showed of one relay."""

    per_second: float
    per_cpu_second: float | None
    p50_ms: float
    p99_ms: float
    failures: int


@dataclass(frozen=True)
class Relay:
    """A way from the generator to the engine: how it is started on a port, if at all."""

    name: str
    command: Callable[[int, int, Path], Sequence[str]] | None


def main() -> int:
    """Print every figure and the ratios; fail when a goal is missed."""
    options = _parser().parse_args()
    relays = [Relay("no relay", None), Relay("gate", gate_command)]
    relays.append(Relay("aiohttp", aiohttp_command))
    if options.router.exists():
        relays.append(Relay("vllm-router", router_command(options.router)))
    else:
        print(f"vllm-router is not at {options.router}: it is left out")
    print(figures.load())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for tool in ("engine", "load"):
            compile_tool(tool, place)
        results = {
            load: measure(load, relays, place, options.repeats, options.seconds) for load in LOADS
        }
        memory = {
            relay.name: memory_of(relay, place) for relay in relays if relay.command is not None
        }
    print(figures.load())
    return verdict(results, memory)


def compile_tool(name: str, place: Path) -> None:
    """Compile one of the tools.

    Raises:
        SystemExit: there is no C compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("the bench needs a C compiler (`cc`) for its engine and generator")
    source = str(HERE / f"{name}.c")
    subprocess.run([compiler, "-O2", "-D_GNU_SOURCE", "-o", str(place / name), source], check=True)


def measure(
    load: Load, relays: Sequence[Relay], place: Path, repeats: int, seconds: float
) -> dict[str, Measured]:
    """Put a load on each relay in turn, and print the medians."""
    runs: dict[str, list[Measured]] = {relay.name: [] for relay in relays}
    for _ in range(repeats):
        for relay in relays:
            with (
                engine(place, load.per_second) as engine_port,
                started(relay, engine_port, place) as (port, pid),
            ):
                runs[relay.name].append(run(load, port, pid, place, seconds))
    print(f"\n{load.name}")
    medians = {name: median(some) for name, some in runs.items()}
    for name, got in medians.items():
        cpu = "" if got.per_cpu_second is None else f"{got.per_cpu_second:9,.0f} per CPU second"
        print(
            f"  {name:12} {got.per_second:9,.0f}/s {cpu:24}"
            f" p50 {got.p50_ms:7.3f} ms, p99 {got.p99_ms:7.3f} ms"
            + (f"  {got.failures} FAILED" if got.failures else "")
        )
    return medians


def median(runs: Sequence[Measured]) -> Measured:
    """Return the median of each figure."""

    def middle(of: Callable[[Measured], float | None]) -> float | None:
        values = [value for one in runs if (value := of(one)) is not None]
        return statistics.median(values) if values else None

    return Measured(
        middle(lambda one: one.per_second) or 0.0,
        middle(lambda one: one.per_cpu_second),
        middle(lambda one: one.p50_ms) or 0.0,
        middle(lambda one: one.p99_ms) or 0.0,
        max(one.failures for one in runs),
    )


def run(load: Load, port: int, pid: int | None, place: Path, seconds: float) -> Measured:
    """Run the generator once, and take the relay's CPU time while it counts."""
    command = [str(place / "load"), str(port), load.kind, str(load.connections), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
        assert generator.stdout is not None
        if generator.stdout.readline().strip() != "counting":
            raise RuntimeError("the generator could not connect")
        before = cpu_seconds(pid) if pid else 0.0
        told = json.loads(generator.stdout.readline())
        used = cpu_seconds(pid) - before if pid else 0.0
    done = told["events"] if load.kind == "stream" else told["answers"]
    return Measured(
        done / told["seconds"],
        done / used if used else None,
        told["p50_us"] / 1e3,
        told["p99_us"] / 1e3,
        told["failures"],
    )


def memory_of(relay: Relay, place: Path) -> tuple[float, float]:
    """Return MiB at rest, and with `STREAMS` streams under way."""
    with engine(place, 2) as engine_port, started(relay, engine_port, place) as (port, pid):
        assert pid is not None
        idle = resident_mib(pid)
        command = [str(place / "load"), str(port), "stream", str(STREAMS), "3"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
            assert generator.stdout is not None
            generator.stdout.readline()
            time.sleep(2)  # in the middle of the three seconds that the streams last
            busy = resident_mib(pid)
            failures = json.loads(generator.stdout.readline())["failures"]
    failed = f"  {failures} FAILED" if failures else ""
    per_stream = 1024 * (busy - idle) / STREAMS
    print(
        f"  {relay.name:12} idle {idle:6.1f} MiB, {STREAMS:,} streams {busy:6.1f} MiB"
        f" ({per_stream:.1f} KiB each){failed}"
    )
    return idle, busy


def verdict(
    results: dict[Load, dict[str, Measured]], memory: dict[str, tuple[float, float]]
) -> int:
    """Print ratios and goals; return 1 when one is missed."""
    full, single, few, many = (results[load] for load in LOADS)
    print("\ngoals")
    checks: list[tuple[str, float, bool]] = []
    for name in ("aiohttp", "vllm-router"):
        if name not in full:
            continue
        requests = (full["gate"].per_cpu_second or 0) / (full[name].per_cpu_second or 1)
        chunks = (many["gate"].per_cpu_second or 0) / (many[name].per_cpu_second or 1)
        checks.append((f"requests per CPU second, times {name}", requests, requests > PER_CPU_GOAL))
        checks.append((f"chunks per CPU second, times {name}", chunks, chunks > PER_CPU_GOAL))
        slower = few["gate"].p99_ms / (few[name].p99_ms or 1)
        checks.append((f"chunk p99 at 32 x 50, times {name}", slower, slower <= CHUNK_P99_GOAL))
    added = single["gate"].p50_ms - single["no relay"].p50_ms
    checks.append(("added p50, ms", added, added <= ADDED_P50_GOAL_MS))
    added_p99 = single["gate"].p99_ms - single["no relay"].p99_ms
    print(f"  added p99: {added_p99:.3f} ms")
    busy = memory["gate"][1]
    checks.append((f"MiB with {STREAMS:,} streams", busy, busy <= MEMORY_GOAL_MIB))
    for name, value, is_met in checks:
        print(f"  {'met   ' if is_met else 'MISSED'} {name}: {value:.2f}")
    return 0 if all(is_met for *_, is_met in checks) else 1


# Processes.


@contextmanager
def engine(place: Path, per_second: float) -> Iterator[int]:
    """Run the mock engine."""
    port = free_port()
    command = [str(place / "engine"), str(port), str(per_second), str(ENDLESS)]
    with running(command, port):
        yield port


@contextmanager
def started(relay: Relay, engine_port: int, place: Path) -> Iterator[tuple[int, int | None]]:
    """Run a relay; without one the engine is asked itself."""
    if relay.command is None:
        yield engine_port, None
        return
    port = free_port()
    with running(relay.command(port, engine_port, place), port) as pid:
        yield port, pid


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[int]:
    """Run a process until it answers on its port; end it afterwards."""
    with ExitStack() as stack:
        log = stack.enter_context(tempfile.TemporaryFile("w+"))
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        stack.callback(process.wait)
        stack.callback(process.kill)
        deadline = time.monotonic() + START_SECONDS
        while not answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise RuntimeError(f"{command[0]} did not start:\n{log.read()[-2000:]}")
            time.sleep(0.05)
        time.sleep(0.5)  # the work of its start is not measured
        yield process.pid


def answers(port: int) -> bool:
    """Tell whether a completion comes through."""
    body = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": 1}).encode()
    url = f"http://127.0.0.1:{port}/v1/completions"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=FIRST_ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def gate_command(port: int, engine_port: int, place: Path) -> Sequence[str]:
    """Write the gate's files, and return how it is run: as in a cluster, with room for all."""
    config = {
        "schemaVersion": "tidegate.io/gate/v1",
        "namespace": "bench",
        "deployment": "tiny",
        "generation": 1,
        "models": ["tiny"],
        "maxModelLen": 8192,
        "gateService": "tiny",
        "services": {"unified": "tiny-engines"},
        "slices": [
            {
                "name": "tiny-a",
                "pool": "unified",
                "revision": "r1",
                "nodeClass": "bench",
                "kvBlocks": 10_000_000,
                "kvTokens": 160_000_000,
                "groups": [{"blockTokens": 16}],
                "maxNumSeqs": 100_000,
                "prefillTokensPerSecond": 1e9,
            }
        ],
        "revisions": [{"name": "r1", "weight": 1}],
        "slo": {"timeToFirstToken": "24h"},
        "limits": {"connections": 16384},
        "deadlines": {"connect": "30s"},  # thousands of streams begin in one moment
    }
    entry = {"name": "tiny-0", "slice": "tiny-a", "address": "127.0.0.1", "port": engine_port}
    (place / "gate.json").write_text(json.dumps(config))
    (place / "endpoints.json").write_text(json.dumps({"pods": [entry]}))
    return [
        *(sys.executable, "-m", "tidegate", "gate", "--namespace", "bench"),
        *("--deployment", "tiny", "--host", "127.0.0.1", "--port", str(port)),
        *("--admin-port", str(free_port()), "--config-file", str(place / "gate.json")),
        *("--endpoints-file", str(place / "endpoints.json")),
    ]


def aiohttp_command(port: int, engine_port: int, place: Path) -> Sequence[str]:
    """Return how the bare relay is run."""
    return [sys.executable, str(HERE / "aiohttp_relay.py"), str(port), str(engine_port)]


def router_command(router: Path) -> Callable[[int, int, Path], Sequence[str]]:
    """Return how vllm-router is run, with the least that it can be asked to do."""

    def command(port: int, engine_port: int, place: Path) -> Sequence[str]:
        return [
            *(str(router), "--host", "127.0.0.1", "--port", str(port)),
            *("--worker-urls", f"http://127.0.0.1:{engine_port}", "--policy", "round_robin"),
            *("--prometheus-port", str(free_port()), "--log-level", "warning"),
        ]

    return command


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    """Return the memory that a process has in RAM."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no VmRSS")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure what the gate costs.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--router", type=Path, default=ROUTER)
    return parser


if __name__ == "__main__":
    sys.exit(main())
