"""What the gate spends on reading a request, beside only decoding its JSON; and on choosing a pod.

Usage: python -m bench.gate_reading

The baseline, `orjson.loads` of the same body, is taken in the same run, so that the ratios hold
on any machine. All times are CPU time of this process.
"""

import gc
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import orjson

from bench import figures
from tidegate.api.gate_config import GateConfig, RevisionConfig
from tidegate.gate.core import keys
from tidegate.gate.core.choice import Choice
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Ask, Head, Pod

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ROUNDS = 15
SMALL_GOAL_MICROSECONDS = 40.0
LARGE_GOAL_MICROSECONDS = 5000.0
CHOICE_GOAL_MICROSECONDS = 10.0
PODS = 8
SENTENCE = "Tell me: what do you think of the weather today, and why is it so?\n"
MEBIBYTE = 2**20
HEADERS = (
    (b"host", b"tiny.chat"),
    (b"user-agent", b"OpenAI/Python 2.8.1"),
    (b"authorization", b"Bearer sk-benchmark"),
    (b"accept", b"application/json"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"connection", b"keep-alive"),
    (b"content-type", b"application/json"),
    (b"x-stainless-lang", b"python"),
    (b"x-stainless-os", b"Linux"),
    (b"x-stainless-retry-count", b"0"),
    (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
)
CONFIG = GateConfig(
    namespace="chat",
    deployment="tiny",
    generation=1,
    models=["tiny"],
    max_model_len=2**21,
    gate_service="tiny",
    services={"unified": "tiny-unified"},
    revisions=[RevisionConfig(name="r1", weight=100)],
)


def main() -> None:
    """Print every figure, with the goals beside them."""
    print(figures.load())
    gc.disable()
    print("\nreading a request, CPU time in microseconds")
    for name, path, document, goal in cases():
        measure_reading(name, path, document, goal)
    print("\nchoosing a pod")
    measure_choice()
    print(figures.load())


def cases() -> list[tuple[str, str, Mapping[str, Any], float]]:
    """Return bodies as clients send them, and the time that each may take."""
    messages = [{"role": "system", "content": SENTENCE * 8}]
    messages += [
        {"role": "user" if turn % 2 else "assistant", "content": SENTENCE * 2} for turn in range(8)
    ]
    chat = {"model": "tiny", "messages": messages, "max_tokens": 200, "temperature": 0.7}
    long = SENTENCE * (MEBIBYTE // len(SENTENCE))
    tool = {"type": "object", "properties": {"place": {"type": "string"}}}
    tools = [
        {"type": "function", "function": {"name": f"f{i}", "parameters": tool}} for i in range(4)
    ]
    small, large = SMALL_GOAL_MICROSECONDS, LARGE_GOAL_MICROSECONDS
    return [
        ("chat, 2 KB", CHAT, chat, small),
        ("chat, 2 KB, streamed", CHAT, chat | {"stream": True}, small),
        ("chat, 2 KB, priority to drop", CHAT, chat | {"priority": -1}, small),
        ("chat, 2.5 KB, four tools", CHAT, chat | {"tools": tools}, small),
        ("prompt, 1 MiB of text", COMPLETIONS, {"prompt": long}, large),
        ("prompt, 1 MiB, streamed", COMPLETIONS, {"prompt": long, "stream": True}, large),
        ("prompt, 150,000 token ids", COMPLETIONS, {"prompt": [*range(100_000, 250_000)]}, large),
    ]


def measure_reading(name: str, path: str, document: Mapping[str, Any], goal: float) -> None:
    """Time reading a body and decoding it, in turns."""
    reader = Reader(CONFIG, keys.parse("bench: {key: sk-benchmark, priority: 7}"))
    head = Head("POST", path, "", HEADERS, "10.0.0.9")
    body = orjson.dumps(document)
    assert isinstance(reader.read(head, body, "id"), Ask)
    calls = max(1, 1_000_000 // (len(body) + 1000))
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(microseconds(lambda: orjson.loads(body), calls))
        ours.append(microseconds(lambda: reader.read(head, body, "id"), calls))
    print(
        f"  {name:30} {min(ours):8.1f} (p50 {figures.percentile(ours, 0.5):.1f}), "
        f"{figures.ratio(min(ours), min(theirs))} decoding alone ({min(theirs):.1f}); "
        f"goal: below {goal:.0f}"
    )


def measure_choice() -> None:
    """Time the order of the pods, with and without a prefix."""
    choice = Choice()
    choice.configure(CONFIG, 0.0)
    pods = [Pod(f"tiny-{n}", f"10.0.1.{n}", 8000, "unified", "r1", "tiny") for n in range(PODS)]
    choice.endpoints("unified", pods, 0.0)
    loads = {pod.name: 0.3 + number / 50 for number, pod in enumerate(pods)}

    def load(pod: Pod) -> float:
        return loads[pod.name]

    for name, prefix, now in (
        ("equal prefixes", b"8 bytes.", 1e6),
        ("no prefix", b"", 1e6),
        ("a new pod among them", b"8 bytes.", 1.0),
    ):
        choose = partial(choice.candidates, "unified", "r1", prefix, load, now)
        times = [microseconds(choose, 1000) for _ in range(ROUNDS)]
        print(
            f"  {PODS} pods, {name:22} {min(times):6.1f} (p50 "
            f"{figures.percentile(times, 0.5):.1f}); goal: below {CHOICE_GOAL_MICROSECONDS:.0f}"
        )


def microseconds(work: Callable[[], object], calls: int) -> float:
    """Return the CPU time of one of some calls."""
    begun = time.process_time()
    for _ in range(calls):
        work()
    return 1e6 * (time.process_time() - begun) / calls


if __name__ == "__main__":
    main()
