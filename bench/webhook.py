"""The webhook under load: its latency at a steady rate on one core, and its memory over time.

Usage: python -m bench.webhook [--seconds 20] [--reviews 10000]   (--full: 60 s, and 50,000 reviews)

The server runs in a process of its own, bound to one core, with TLS and without an API server:
answers about access are at hand, as they are in a cluster within seconds of the first. Reviews are
those of the corpus's kind of resources on 50 classes of node. The baseline, an answer that looks at
nothing, is taken in the same run, so that the ratios hold on any machine.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client import CollectorRegistry

from bench import figures
from bench.plan_speed import PRODUCTS, cluster
from tidegate.core.admission import AccessQuestion, Facts
from tidegate.core.nodes import Node
from tidegate.shell.admission import certificates, judging
from tidegate.shell.admission.live_tls import LiveTls
from tidegate.shell.admission.metrics import AdmissionMetrics
from tidegate.shell.admission.server import Server
from tidegate.shell.admission.verdict import Reviewer
from tidegate.shell.admission.wire import User

CHECKOUT = Path(__file__).parents[1]
EXAMPLES = CHECKOUT / "examples"
GPUS_OF_A_NODE = range(4, 9)
"""Each makes a class of its own of every product: 5 x 10."""
CLASSES = len(PRODUCTS) * len(GPUS_OF_A_NODE)
PER_SECOND = 200
SPECS = 40
"""Resources that are applied again and again, as GitOps does; the memo holds them."""
NEW_EVERY = 100
"""One review in so many is of a spec that nobody has seen."""
CONNECTIONS = 8
GOAL_SECONDS = 0.020
"""Of the 99th percentile, on a machine that has a core to spare."""
GOAL_GROWTH_BYTES = 4 * 2**20
WARM_UP = 500


class Known:
    """Access answers that are at hand."""

    async def refused(self, user: User, questions: Sequence[AccessQuestion]) -> tuple[()]:
        """Refuse nobody."""
        return ()


@dataclass(frozen=True)
class Served:
    """The server's process, where it listens, and whom to trust."""

    pid: int
    url: str
    tls: ssl.SSLContext

    def memory_bytes(self) -> int:
        """Return its resident memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise LookupError("VmRSS")

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print every figure, with the goals beside them."""
    options = _parser().parse_args()
    seconds = 60.0 if options.full else options.seconds
    reviews = 50_000 if options.full else options.reviews
    print(figures.load())
    with served() as there:
        asyncio.run(measure(there, seconds, reviews))
    print(figures.load())


async def measure(there: Served, seconds: float, reviews: int) -> None:
    """Ask at a steady rate, then as fast as it goes, and tell what came of it."""
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(there.url, connector=connector) as session:

        async def ask(body: bytes, path: str) -> float:
            begun = time.perf_counter()
            async with session.post(path, data=body, ssl=there.tls) as answer:
                text = await answer.read()
                assert answer.status == 200, text
            return time.perf_counter() - begun

        known = [body(number) for number in range(SPECS)]
        for number in range(WARM_UP):
            await ask(known[number % SPECS], "/validate")
        nothing = await at_rate(ask, [other_kind()], min(seconds, 10.0))
        print(f"\n{PER_SECOND} calls/s that look at nothing: {spread(nothing)}")
        cpu = there.cpu_seconds()
        repeated = await at_rate(ask, known, seconds)
        spent = there.cpu_seconds() - cpu
        print(f"{PER_SECOND} reviews/s, {CLASSES} classes, specs known: {spread(repeated)}")
        print(f"  goal: p99 below {1e3 * GOAL_SECONDS:.0f} ms; {verdict(repeated)}")
        print(f"  p99 is {figures.ratio(p99(repeated), p99(nothing))} of a look at nothing")
        each = 1e3 * spent / len(repeated)
        print(f"  CPU: {each:.2f} ms a review, so {each * PER_SECOND / 10:.0f} % of a core")
        mixed = await at_rate(ask, known, seconds, fresh=NEW_EVERY)
        print(f"the same, one in {NEW_EVERY} a spec nobody has seen: {spread(mixed)}")
        cpu = there.cpu_seconds()
        cold = [await ask(body(20_000 + number), "/validate") for number in range(20)]
        spent = there.cpu_seconds() - cpu
        print(f"a spec nobody has seen, alone: {spread(cold)}; CPU {1e3 * spent / 20:.0f} ms")
        await measure_memory(there, ask, known, reviews)


async def measure_memory(there: Served, ask: Any, known: list[bytes], reviews: int) -> None:
    """Ask as fast as it goes, and compare memory after the first tenth with that at the end."""
    begun = time.perf_counter()
    first = 0
    for number in range(0, reviews, CONNECTIONS):
        if number >= reviews // 10 and not first:
            first = there.memory_bytes()
        batch = range(number, min(number + CONNECTIONS, reviews))
        await asyncio.gather(
            *(
                ask(body(number) if n % NEW_EVERY == 0 else known[n % SPECS], "/validate")
                for n in batch
            )
        )
    lasted, last = time.perf_counter() - begun, there.memory_bytes()
    print(f"\n{reviews:,} reviews at {reviews / lasted:.0f}/s:")
    print(f"  memory {first / 2**20:.1f} MiB after a tenth, {last / 2**20:.1f} MiB at the end")
    met = last - first <= GOAL_GROWTH_BYTES
    print(f"  goal: at most {GOAL_GROWTH_BYTES // 2**20} MiB more; {'met' if met else 'not met'}")


async def at_rate(ask: Any, bodies: list[bytes], seconds: float, fresh: int = 0) -> list[float]:
    """Ask at the rate, whatever the answers take, and return how long each took."""
    tasks, begun = [], time.perf_counter()
    count = int(PER_SECOND * seconds)
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + number / PER_SECOND - time.perf_counter()))
        is_fresh = fresh and number % fresh == 0
        sent = body(10_000 + number) if is_fresh else bodies[number % SPECS % len(bodies)]
        tasks.append(asyncio.ensure_future(ask(sent, "/validate")))
    return list(await asyncio.gather(*tasks))


def body(number: int) -> bytes:
    """Return a review of the creation of one of many resources: pairs and single pools."""
    name = ("production/qwen3-32b-pair", "unified")[number % 2]
    document = yaml.safe_load(_text(name))
    for pool in document["spec"]["pools"].values():
        pool.pop("nodeSelector", None)  # every class is to be sized
    document["metadata"] = {"name": f"model-{number}", "namespace": "bench"}
    document["spec"]["engine"]["maxModelLen"] = 4096 + number
    return review(document, "LLMDeployment", "tidegate.io")


def other_kind() -> bytes:
    """Return a review that is answered without a look."""
    return review({"metadata": {"name": "x"}}, "ConfigMap", "")


def review(document: dict[str, Any], kind: str, group: str) -> bytes:
    """Return an AdmissionReview of a creation."""
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
                "kind": {"group": group, "version": "v1alpha1", "kind": kind},
                "name": document["metadata"]["name"],
                "namespace": "bench",
                "operation": "CREATE",
                "userInfo": {"username": "ann", "groups": ["dev", "system:authenticated"]},
                "object": document,
                "oldObject": None,
            },
        }
    ).encode()


@contextlib.contextmanager
def served() -> Iterator[Served]:
    """Run the server in a process of its own, on the first core."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,))
    process.start()
    try:
        port, authority = ours.recv()
        os.sched_setaffinity(process.pid or 0, {min(os.sched_getaffinity(0))})
        tls = ssl.create_default_context(cadata=authority.decode())
        yield Served(process.pid or 0, f"https://127.0.0.1:{port}", tls)
    finally:
        process.terminate()
        process.join()


def _serve(told: Connection) -> None:
    """Serve until killed; tell the port and the authority first."""
    nodes: tuple[Node, ...] = tuple(
        node for gpus in GPUS_OF_A_NODE for node in cluster(PRODUCTS, 1, gpus)
    )
    facts = Facts(nodes=nodes, gpu_pods=(), can_judge=True)  # what a canary needs is told, too
    held = certificates.first(["127.0.0.1"], time.time(), certificates.Lifetimes())
    tls = LiveTls()
    tls.load(held.chain)

    judging.share_interpreter()

    async def serve() -> None:
        reviewer = Reviewer(lambda request: facts, Known())  # type: ignore[arg-type]  # a double
        server = Server(reviewer, AdmissionMetrics(CollectorRegistry()))
        runner = await server.start(0, tls.context, host="127.0.0.1")
        told.send((runner.addresses[0][1], held.bundle))
        await asyncio.Event().wait()

    asyncio.run(serve())


def p99(seconds: Sequence[float]) -> float:
    """Return what 99 of 100 do not exceed."""
    return figures.percentile(seconds, 0.99)


def spread(seconds: Sequence[float]) -> str:
    """Return percentiles in milliseconds."""
    shown = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    return ", ".join(f"{name} {1e3 * figures.percentile(seconds, q):.1f}" for name, q in shown) + (
        " ms"
    )


def verdict(seconds: Sequence[float]) -> str:
    """Say whether the goal is met."""
    return "met" if p99(seconds) < GOAL_SECONDS else "not met"


def _text(name: str) -> str:
    return (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.webhook", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each steady rate")
    parser.add_argument("--reviews", type=int, default=10_000, help="for the memory")
    parser.add_argument("--full", action="store_true", help="60 s and 50,000 reviews")
    return parser


if __name__ == "__main__":
    main()
