"""What an admission costs: the gate's core beside the least bookkeeping that could be done.

Usage: python -m bench.gate_core

The baseline keeps in plain dicts how many tokens each pod holds and takes the pod with the fewest,
as a balancer by load does. Both see the same requests in turns, so the ratio holds on any machine.
Times are of this process's own CPU; the minimum is moved least by what else runs.
"""

import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from bench import figures
from tidegate.api.gate_config import GateConfig, KVGroup, Limits, RevisionConfig, SliceConfig, Slo
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.core.choice import Choice
from tidegate.gate.exchange import Ask, Caller, Outcome, Pod, Refusal, Seat, Surface, Usage

PODS = 8
ROUNDS = 9
REQUESTS = 4_000
IN_FLIGHT = 200
WAITING = (10, 10_000)
GOAL_MICROSECONDS = 60.0
_BLOCK_TOKENS = 16


def main() -> None:
    """Print the cost of a request, of a chunk, of a refusal and of a turn in the queue."""
    print(figures.load())
    asks = _asks()
    gate, tokens = _Gate(kv_blocks=40_000), dict.fromkeys(range(PODS), 0)
    core, plain = [], []
    for _ in range(ROUNDS):
        core.append(_seconds(lambda: gate.serve(asks)) / REQUESTS)
        plain.append(_seconds(lambda: _serve_plainly(asks, tokens)) / REQUESTS)
    print(
        f"ask + first token + ended, {PODS} pods: {_microseconds(min(core))} "
        f"(goal {GOAL_MICROSECONDS:.0f} µs), {figures.ratio(min(core), min(plain))} "
        f"of plain dicts at {_microseconds(min(plain))}"
    )
    seat = gate.seat(asks[0])
    chunks = _best(lambda: [gate.core.produced(seat, 1, gate.now) for _ in range(REQUESTS)])
    print(f"a chunk of a stream: {_microseconds(chunks / REQUESTS)}")
    full = _Gate(kv_blocks=400, max_queue=0)
    full.fill(asks)
    refusals = _best(lambda: full.refuse(asks))
    print(f"a refusal, all pods full: {_microseconds(refusals / REQUESTS)}")
    for waiting in WAITING:
        crowd = _Gate(kv_blocks=400, max_queue=100_000)
        crowd.fill(asks, waiting)
        turns = _best(partial(crowd.turn, asks, 500)) / 500
        print(f"an end and an ask while {waiting} wait: {_microseconds(turns)}")
    print(figures.load())


class _Gate:
    """The core with its pods and a clock that stands still within a round."""

    def __init__(self, *, kv_blocks: int, max_queue: int = 0) -> None:
        self.now = 0.0
        self.core = Admissions(jitter=random.Random(1).random, choice=Choice())
        self.core.configure(_config(kv_blocks, max_queue), self.now)
        pods = [
            Pod(f"chat-{n}", "10.0.0.1", 8000, "unified", "r1", "chat-unified") for n in range(PODS)
        ]
        self.core.endpoints("unified", pods, self.now)
        self.now = 60.0  # the pods' slow start is over
        self.seats: deque[Seat] = deque()
        self.refused = 0

    def seat(self, ask: Ask) -> Seat:
        self.ask(ask)
        return self.seats.pop()

    def ask(self, ask: Ask) -> None:
        self.now += 1e-5
        self.core.ask(ask, self.now, self.now, self._decided)

    def _decided(self, answer: object) -> None:
        if isinstance(answer, Seat):
            self.seats.append(answer)
            self.core.first_token(answer, self.now)
        elif isinstance(answer, Refusal):
            self.refused += 1

    def end_oldest(self) -> None:
        usage = Usage(prompt_tokens=100, output_tokens=60)
        self.core.ended(self.seats.popleft(), Outcome.FINISHED, usage, self.now)

    def serve(self, asks: Sequence[Ask]) -> None:
        for ask in itertools.islice(itertools.cycle(asks), REQUESTS):
            self.ask(ask)
            if len(self.seats) > IN_FLIGHT:
                self.end_oldest()

    def fill(self, asks: Sequence[Ask], waiting: int = 1) -> None:
        endless = itertools.cycle(asks)
        while self.core.view(self.now, self.now).queued + self.refused < waiting:
            self.ask(next(endless))

    def refuse(self, asks: Sequence[Ask]) -> None:
        for ask in itertools.islice(itertools.cycle(asks), REQUESTS):
            self.ask(ask)

    def turn(self, asks: Sequence[Ask], times: int) -> None:
        for ask in itertools.islice(itertools.cycle(asks), times):
            self.end_oldest()
            self.ask(ask)


def _serve_plainly(asks: Sequence[Ask], tokens: dict[int, int]) -> None:
    """Hold each request's tokens against the emptiest pod."""
    held: deque[tuple[int, int]] = deque()
    for ask in itertools.islice(itertools.cycle(asks), REQUESTS):
        pod = min(tokens, key=tokens.__getitem__)
        need = ask.prompt_tokens + min(ask.output_limit, 256)
        tokens[pod] += need
        held.append((pod, need))
        if len(held) > IN_FLIGHT:
            pod, need = held.popleft()
            tokens[pod] -= need
    for pod, need in held:
        tokens[pod] -= need


def _asks() -> list[Ask]:
    dice = random.Random(1)
    return [
        Ask(
            request_id=f"r{number}",
            surface=Surface.CHAT,
            model="m",
            caller=Caller(f"tenant-{number % 20}", 5),
            body=b"{}",
            headers=(),
            prompt_tokens=dice.randint(10, 2000),
            output_limit=512,
            streams=True,
            prefix=dice.randbytes(8),
            serial=number,
        )
        for number in range(1000)
    ]


def _config(kv_blocks: int, max_queue: int) -> GateConfig:
    part = SliceConfig(
        name="chat-unified",
        pool="unified",
        revision="r1",
        node_class="h100",
        kv_blocks=kv_blocks,
        kv_tokens=kv_blocks * _BLOCK_TOKENS,
        groups=[KVGroup(block_tokens=_BLOCK_TOKENS)],
        max_num_seqs=1024,
        prefill_tokens_per_second=1e7,
    )
    slo = Slo.model_validate({"time_to_first_token": "600s"})
    limits = Limits.model_validate({"max_queue": max_queue, "queue_timeout": "600s"})
    return GateConfig(
        namespace="prod",
        deployment="chat",
        generation=1,
        models=["m"],
        max_model_len=65_536,
        gate_service="chat",
        services={"unified": "chat-unified"},
        slices=[part],
        revisions=[RevisionConfig(name="r1", weight=100)],
        slo=slo,
        limits=limits,
    )


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _best(work: Callable[[], object]) -> float:
    return min(figures.repeat(work, 3, clock=time.process_time))


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs"


if __name__ == "__main__":
    main()
