"""What one request costs in the gate's own code, from its bytes to its line of metrics.

Usage: python -m bench.gate_path [--profile]

A client's and an engine's connection without sockets, and between them all that a gate has: wire,
reading, admission, metrics. The system's calls are left out, so that what stands here is what the
gate's code can change. CPU time of this process; the minimum is moved least by what else runs.
"""

import argparse
import asyncio
import cProfile
import functools
import gc
import pstats
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import FrameType
from typing import cast

import uvloop

from bench import figures
from tidegate.api.gate_config import GateConfig, KVGroup, RevisionConfig, SliceConfig, Slo
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Ask, Head, Outcome, Pod, Seat, Usage
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.request_log import RequestLog, Which
from tidegate.gate.shell.telemetry import Telemetry
from tidegate.gate.wire import heads
from tidegate.gate.wire.client import ClientConnection
from tidegate.gate.wire.memory import Memory
from tidegate.gate.wire.observer import Finished
from tidegate.gate.wire.pods import PodConnection, Pods
from tidegate.gate.wire.server import Server
from tidegate.gate.wire.sweep import Sweep
from tidegate.gate.wire.wiring import Wiring

ROUNDS = 25
REQUESTS = 400
CLIENTS = 32
"""That ask at once, and share the turns of the event loop."""
PODS = (1, 8)
BODY = (
    b'{"model":"tiny","prompt":"'
    + b"The tide comes in and goes. " * 20
    + b'","max_tokens":64,"temperature":0.7,"stream":false}'
)
REQUEST = (
    b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: */*\r\n"
    b"authorization: Bearer abcdefghijkl\r\nuser-agent: bench\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
_SAID = (
    b'{"id":"cmpl-1","object":"text_completion","model":"tiny","choices":[{"index":0,'
    b'"text":" ebb","finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":120,"completion_tokens":64,"total_tokens":184}}'
)
_USAGE = Usage(prompt_tokens=120, output_tokens=64)
ANSWER = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_SAID), _SAID)
)


def main() -> None:
    """Print what a request costs, whole and by its parts."""
    parser = argparse.ArgumentParser(description="Measure what a request costs in the gate's code.")
    parser.add_argument("--profile", action="store_true", help="show where the time goes, too")
    options = parser.parse_args()
    print(figures.load())
    uvloop.run(_measure(profiles=options.profile))
    print(figures.load())


async def _measure(*, profiles: bool) -> None:
    for pods in PODS:
        gate = Gate(pods)
        await gate.serve(REQUESTS)
        gc.freeze()  # as the gate does once it serves
        whole, parts = [], []
        for _ in range(ROUNDS):
            begun = time.process_time()
            await gate.serve(REQUESTS)
            whole.append((time.process_time() - begun) / REQUESTS)
            parts.append([_each(part) for part in gate.parts()])
            gate.tick()
        reading, admission, metrics = (min(costs) for costs in zip(*parts, strict=True))
        rest = min(whole) - reading - admission - metrics
        print(
            f"{pods} pods: {_us(min(whole))} a request: reading {_us(reading)}, "
            f"admission {_us(admission)}, metrics {_us(metrics)}, wire {_us(rest)}"
        )
        calls = await _calls(gate)
        print(
            "  calls: "
            + ", ".join(f"{part} {count / REQUESTS:.0f}" for part, count in calls.items())
        )
        if profiles and pods == PODS[0]:
            await _profile(gate)
        gate.close()


class Gate:
    """A gate's parts, a client that asks again at once, and engines that answer at once."""

    def __init__(self, pods: int) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        config = _config()
        self.reader = Reader(config, Keys())
        self.core = Admissions(jitter=random.Random(1).random, choice=Choice())
        # the pods came a while ago, so that their slow start is over
        self.core.configure(config, loop.time() - 60.0)
        engines = [Pod(f"tiny-{n}", "e", n, "unified", "r1", "tiny-a") for n in range(pods)]
        self.core.endpoints("unified", engines, loop.time() - 60.0)
        self._finished: deque[Finished] = deque(maxlen=1)
        self.telemetry = Telemetry(
            Metrics(), [RequestLog(Which.FAILED).finished, self._finished.append]
        )
        self.telemetry.configure(config)
        self._sweep = sweep = Sweep(loop)
        unused = Sweep(loop)
        unused.close()  # an engine's connection stays, however long it is idle
        connections = Pods(loop, unused)
        wiring = Wiring(
            *(self.reader, self.core, lambda: config, self.telemetry, _nowhere, connections),
            *(sweep, loop),
        )
        for engine in engines * CLIENTS:
            answering = PodConnection(connections._idle, (engine.address, engine.port))
            answering.connection_made(cast(asyncio.Transport, _Engine(loop, answering)))
            answering.release(loop.time())
        server = Server(wiring, Memory())
        self._clients = [ClientConnection(server, sweep, loop) for _ in range(CLIENTS)]
        for client in self._clients:
            client.connection_made(cast(asyncio.Transport, _Client(self._answered, client)))
        self._left = self._unanswered = 0
        self._done: asyncio.Future[None] = loop.create_future()
        self._seat: Seat | None = None

    async def serve(self, requests: int) -> None:
        """Send requests, from each client one after the other."""
        self._left, self._unanswered = requests - CLIENTS, requests
        self._done = self._loop.create_future()
        for client in self._clients:
            self._loop.call_soon(client.data_received, REQUEST)
        await self._done
        self.tick()

    def tick(self) -> None:
        """Let the core forget what is over, as it does twenty times a second."""
        self.core.tick(self._loop.time(), time.time())

    def close(self) -> None:
        """Look at its connections no more."""
        self._sweep.close()

    def _answered(self, client: ClientConnection, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"not served: {data!r}")
        self._unanswered -= 1
        if self._left:
            self._left -= 1
            self._loop.call_soon(client.data_received, REQUEST)
        elif not self._unanswered:
            self._loop.call_soon(self._done.set_result, None)

    def parts(self) -> Sequence[Callable[[], object]]:
        """Return what one request asks of the reader, of the admissions and of the metrics."""
        head = heads.read_request(REQUEST[: -len(BODY)], "127.0.0.1").head
        ask = self.reader.read(head, BODY, "0" * 32)
        finished = self._finished[-1]
        assert isinstance(ask, Ask)
        return (
            lambda: self._read(head),
            lambda: self._admit(ask),
            lambda: self._tell(ask, finished),
        )

    def _read(self, head: Head) -> None:
        self.reader.head(head)
        ask = self.reader.read(head, BODY, "0" * 32)
        self.reader.learn(cast(Ask, ask), _USAGE)

    def _admit(self, ask: Ask) -> None:
        now = self._loop.time()
        self.core.ask(ask, now, now, self._decided)
        seat = self._seat
        assert seat is not None
        self.core.sent(seat, now)
        self.core.first_token(seat, now)
        self.core.ended(seat, Outcome.FINISHED, _USAGE, now)

    def _decided(self, decision: object) -> None:
        self._seat = cast(Seat, decision)

    def _tell(self, ask: Ask, finished: Finished) -> None:
        assert self._seat is not None
        self.telemetry.admitted(ask, self._seat.pod, 0.0)
        self.telemetry.first_token(ask, self._seat.pod, 0.001)
        self.telemetry.finished(finished)


class _Transport:
    """What a connection may ask of its transport."""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Nothing is ever buffered."""

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        """It is never paused."""

    def get_write_buffer_size(self) -> int:
        return 0


class _Client(_Transport):
    """The client's end: hands on what is written."""

    def __init__(
        self, written: Callable[[ClientConnection, bytes], None], client: ClientConnection
    ) -> None:
        self.write = functools.partial(written, client)


class _Engine(_Transport):
    """An engine's end: answers in the next turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: PodConnection) -> None:
        self._loop = loop
        self._connection = connection

    def writelines(self, parts: Sequence[bytes]) -> None:
        self._loop.call_soon(self._connection.data_received, ANSWER)


def _each(part: Callable[[], object]) -> float:
    begun = time.process_time()
    for _ in range(REQUESTS):
        part()
    return (time.process_time() - begun) / REQUESTS


async def _calls(gate: Gate) -> Counter[str]:
    """Count the calls of Python and of C that a request makes, by the caller's part."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        caller = frame.f_back if event == "call" else frame
        name = caller.f_code.co_filename if caller else ""
        if event in ("call", "c_call") and "/gate/" in name:
            part = name.partition("/gate/")[2].partition("/")[0]
            counts[part] += 1

    sys.setprofile(count)
    try:
        await gate.serve(REQUESTS)
    finally:
        sys.setprofile(None)
    return counts


async def _profile(gate: Gate) -> None:
    profile = cProfile.Profile()
    profile.enable()
    await gate.serve(10 * REQUESTS)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(45)


def _config() -> GateConfig:
    part = SliceConfig(
        name="tiny-a",
        pool="unified",
        revision="r1",
        node_class="bench",
        kv_blocks=10_000_000,
        kv_tokens=160_000_000,
        groups=[KVGroup(block_tokens=16)],
        max_num_seqs=100_000,
        prefill_tokens_per_second=1e9,
    )
    return GateConfig(
        namespace="bench",
        deployment="tiny",
        generation=1,
        models=["tiny"],
        max_model_len=8192,
        gate_service="tiny",
        services={"unified": "tiny-engines"},
        slices=[part],
        revisions=[RevisionConfig(name="r1", weight=1)],
        slo=Slo.model_validate({"time_to_first_token": "24h"}),
    )


def _nowhere(deployment: str) -> tuple[str, int]:
    raise LookupError(deployment)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


if __name__ == "__main__":
    main()
