"""Whether a gate is as new after a long run: many requests, many open streams, clients that vanish.

Usage: python -m bench.gate_long_run [--requests 100000] [--streams 10000]

One gate as a process, with its whole core, in front of the mock engine of `gate_load/`. After each
part the gate must hold nothing: no seat, no block, no prompt that waits, no queue. It counts what
it was asked, so that nothing is forgotten either; its bugs and its memory are shown.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import figures
from bench.gate_cost import Relay, compile_tool, engine, gate_command, resident_mib, started

CONNECTIONS = 64
ROUND_SECONDS = 5
STREAM_SECONDS = 30
CHUNKS_PER_SECOND = 0.5
SETTLE_SECONDS = 30.0
FILES_LEFT = 1000
"""Open files that are not asked for: the gate keeps some for itself, and refuses before that."""
MOST_GROWTH_MIB = 16.0
"""Memory that a hundred thousand requests may leave behind: fragments, and what was learned."""


@dataclass(frozen=True)
class Gate:
    """A running gate, and where it shows what it holds."""

    port: int
    admin_port: int
    pid: int

    def holds(self) -> dict[str, int]:
        """Return what the ledger has reserved, and who waits."""
        view = json.loads(_page(self.admin_port, "podz"))
        held = {
            name: sum(pod[name] for pod in view["pods"])
            for name in ("requests", "reservedBlocks", "reservedTokens", "prefillBacklogTokens")
        }
        return {**held, "queued": view["queued"]}

    def total(self, metric: str) -> int:
        """Return a counter, all of its series together."""
        page = _page(self.admin_port, "metrics")
        values = re.findall(rf"^tidegate_gate_{metric}(?:{{.*}})? (\S+)$", page, re.MULTILINE)
        return round(sum(map(float, values)))

    def ends(self) -> dict[str, int]:
        """Return how many requests ended in which way, and why."""
        found = re.findall(
            r'^tidegate_gate_requests_total{.*outcome="(.*?)",reason="(.*?)".*} (\S+)$',
            _page(self.admin_port, "metrics"),
            re.MULTILINE,
        )
        return {f"{outcome} {why}".strip(): round(float(count)) for outcome, why, count in found}


def main() -> int:
    """Run both parts; 1 where something was left or forgotten."""
    parser = argparse.ArgumentParser(description="Run a gate for long.")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=10_000)
    options = parser.parse_args()
    print(figures.load())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for tool in ("engine", "load"):
            compile_tool(tool, place)
        with gate(place, per_second=0.0) as one:
            is_good = requests(one, place, options.requests)
        with gate(place, CHUNKS_PER_SECOND) as one:
            is_good &= streams(one, place, within_open_files(options.streams))
    print(figures.load())
    return 0 if is_good else 1


@contextmanager
def gate(place: Path, per_second: float) -> Iterator[Gate]:
    """Run an engine of that many chunks a second for each stream, and a gate before it."""
    admin_ports: list[int] = []

    def command(port: int, engine_port: int, place: Path) -> list[str]:
        told = list(gate_command(port, engine_port, place))
        admin_ports.append(int(told[told.index("--admin-port") + 1]))
        return told

    with (
        engine(place, per_second) as engine_port,
        started(Relay("gate", command), engine_port, place) as (port, pid),
    ):
        assert pid is not None
        yield Gate(port, admin_ports[0], pid)


def requests(one: Gate, place: Path, count: int) -> bool:
    """Ask so often; in between the clients are killed amid their requests."""
    before = one.total("requests_total")
    answers, warm_mib = 0, 0.0
    while answers < count:
        told = load(one, place, "post", CONNECTIONS, ROUND_SECONDS)
        answers += told["answers"]
        warm_mib = warm_mib or resident_mib(one.pid)
        vanish(one, place)
        print(f"  {answers:,} answers, {resident_mib(one.pid):.1f} MiB", flush=True)
    grown_mib = resident_mib(one.pid) - warm_mib
    counted = one.total("requests_total") - before
    print(f"requests: {answers:,} answered, {counted:,} counted, {grown_mib:+.1f} MiB since warm")
    return is_as_new(one) and counted >= answers and grown_mib <= MOST_GROWTH_MIB


def streams(one: Gate, place: Path, count: int) -> bool:
    """Hold so many streams open at once."""
    idle_mib = resident_mib(one.pid)
    command = [str(place / "load"), str(one.port), "stream", str(count), str(STREAM_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
        most = 0
        while generator.poll() is None:
            most = max(most, one.holds()["requests"])
            busy_mib = resident_mib(one.pid)
            time.sleep(0.5)  # between two samples of what it holds
        assert generator.stdout is not None
        told = json.loads(generator.stdout.read().splitlines()[-1])
    print(
        f"streams: {most:,} of {count:,} at once, {told['events']:,} chunks,"
        f" p50 {told['p50_us'] / 1e3:.1f} ms, p99 {told['p99_us'] / 1e3:.1f} ms,"
        f" {told['failures']} failed, {busy_mib:.0f} MiB (idle {idle_mib:.0f})"
    )
    return is_as_new(one) and most == count and not told["failures"]


def within_open_files(wanted: int) -> int:
    """Return as many streams as a gate has files for here, at two connections each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, (hard - FILES_LEFT) // 2)
    if most < wanted:
        print(f"{most:,} streams instead of {wanted:,}: {hard:,} files may be open (`ulimit -n`)")
    return most


def vanish(one: Gate, place: Path) -> None:
    """Let clients ask, and kill them while they are served."""
    command = [str(place / "load"), str(one.port), "post", str(CONNECTIONS), str(ROUND_SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as generator:
        assert generator.stdout is not None
        generator.stdout.readline()
        generator.kill()


def load(one: Gate, place: Path, kind: str, connections: int, seconds: int) -> dict[str, int]:
    """Run the generator to its end; return what it tells."""
    command = [str(place / "load"), str(one.port), kind, str(connections), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return told


def is_as_new(one: Gate) -> bool:
    """Wait until the gate holds nothing; say what it still holds after a while, and its bugs."""
    is_empty = _within(SETTLE_SECONDS, lambda: not any(one.holds().values()))
    errors = one.total("internal_errors_total")
    stalls = one.total("loop_stalls_total")
    print(f"  left: {one.holds() if not is_empty else 'nothing'}; bugs {errors}; stalls {stalls}")
    print(f"  ends: {one.ends()}")
    return is_empty and not errors


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)  # before it is asked again
    return True


def _page(admin_port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/{path}", timeout=30) as answer:
        return str(answer.read().decode())


if __name__ == "__main__":
    sys.exit(main())
