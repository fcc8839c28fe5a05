"""How long a plan takes: in the process, and from the shell.

Usage: python -m bench.plan_speed

Baselines are taken in the same run, so that the ratios hold on any machine: reading the same
document with pydantic, one class of node instead of ten, and a Python that does nothing or only
imports the official Kubernetes client. A plan waits for nothing, so its CPU time is what a quiet
machine would take.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from bench import figures
from tidegate.api import llmdeployment
from tidegate.core import model_config, nodes, plan
from tidegate.core.names import GPU_RESOURCE
from tidegate.core.nodes import Node

CHECKOUT = Path(__file__).parents[1]
EXAMPLE = CHECKOUT / "examples" / "production" / "qwen3-32b-pair.yaml"
PRODUCTS = (
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H200",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H100-NVL",
    "NVIDIA-B200",
    "NVIDIA-L40S",
    "NVIDIA-L40",
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
)
NODES_OF_A_CLASS = 10
PLANS = 200
STARTS = 15
KINDS_OF_CARD = 100
GPUS_OF_A_NODE = range(8, 18)  # each makes a class of its own of every product
PLAN_GOAL_SECONDS = 0.020
MANY_CLASSES_GOAL_SECONDS = 0.050
START_GOAL_SECONDS = 0.6


def main() -> None:
    """Print every figure, with the goals of the first release beside them."""
    print(figures.load())
    measure_plan()
    for has_bytecode in (True, False):
        measure_start(has_bytecode)
    print(figures.load())


def measure_plan() -> None:
    """Time the plan of a prefill/decode pair over one, ten and a hundred classes of node."""
    document = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    for pool in document["spec"]["pools"].values():
        del pool["nodeSelector"]  # every class is to be sized
    spec = llmdeployment.parse(document).spec
    config = model_config.of(spec.model, None)

    def timed(work: Callable[[], object]) -> list[float]:
        return figures.repeat(work, PLANS, time.process_time)

    def planned(there: Sequence[Node], classes_there: int) -> list[float]:
        free = nodes.free_gpus(there, (), None, None)
        found = plan.make(spec, config, there, free, {})
        classes = {entry.node_class.name for entry in found.slices}
        classes |= {entry.node_class for entry in found.exclusions}
        assert len(classes) == classes_there, f"{len(classes)} of {classes_there} were sized"
        return timed(lambda: plan.make(spec, config, there, free, {}))

    ten, one = planned(cluster(PRODUCTS), len(PRODUCTS)), planned(cluster(PRODUCTS[:1]), 1)
    many = [node for gpus in GPUS_OF_A_NODE for node in cluster(PRODUCTS, 1, gpus)]
    hundred = planned(many, len(PRODUCTS) * len(GPUS_OF_A_NODE))
    kinds = planned(kinds_of_card(KINDS_OF_CARD), KINDS_OF_CARD)
    parsing = timed(lambda: llmdeployment.parse(document))
    size = f"2 pools x {len(PRODUCTS)} classes, {len(PRODUCTS) * NODES_OF_A_CLASS} nodes"
    print(f"\nCPU time of a plan, {size}: {figures.spread(ten)}")
    print(f"  goal: below {1e3 * PLAN_GOAL_SECONDS:.0f} ms")
    print(f"  one class: {figures.spread(one)}; ten cost {figures.ratio(min(ten), min(one))}")
    print(
        f"  a hundred classes: {figures.spread(hundred)}; {figures.ratio(min(hundred), min(ten))}"
    )
    print(f"    goal: below {1e3 * MANY_CLASSES_GOAL_SECONDS:.0f} ms")
    print(f"  a hundred kinds of card: {figures.spread(kinds)}")
    print(f"  parsing it: {figures.spread(parsing)}; ten cost {_ratio(ten, parsing)}")


def cluster(
    products: Sequence[str], nodes_of_each: int = NODES_OF_A_CLASS, gpus: int = 8
) -> list[Node]:
    """Return nodes of these products, as GPU feature discovery would label them."""
    return [
        nodes.read(
            {
                "metadata": {
                    "name": f"{product.lower()}-{gpus}-{number}",
                    "labels": {nodes.PRODUCT_LABEL: product, nodes.COUNT_LABEL: str(gpus)},
                },
                "status": {"allocatable": {GPU_RESOURCE: str(gpus)}},
            }
        )
        for product in products
        for number in range(nodes_of_each)
    ]


def kinds_of_card(count: int) -> list[Node]:
    """Return nodes with a card each that differ in its memory: nothing is sized for two of them."""
    return [
        nodes.read(
            {
                "metadata": {
                    "name": f"card-{number}",
                    "labels": {
                        nodes.PRODUCT_LABEL: "Card",
                        nodes.MEMORY_LABEL: str(80_000 + 2_000 * number),
                        nodes.MAJOR_LABEL: "9",
                        nodes.MINOR_LABEL: "0",
                    },
                },
                "status": {"allocatable": {GPU_RESOURCE: "8"}},
            }
        )
        for number in range(count)
    ]


def measure_start(has_bytecode: bool) -> None:
    """Time whole commands, from the shell's fork to the exit."""
    python = sys.executable
    command = [python, "-m", "tidegate", "plan", "-f", str(EXAMPLE), f"--gpu={PRODUCTS[0]}"]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        if has_bytecode:
            environment |= {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        ours = run(command, environment)
        nothing = run([python, "-c", "pass"], environment)
        client = run([python, "-c", "import kubernetes.client"], environment)
    print(f"\ntidegate plan from the shell, {'as installed' if has_bytecode else 'no bytecode'}:")
    print(f"  wall {figures.spread([wall for wall, _ in ours])}")
    print(f"  CPU  {figures.spread([cpu for _, cpu in ours])}")
    print(f"  goal: below {1e3 * START_GOAL_SECONDS:.0f} ms of wall on a quiet machine")
    for name, theirs in (("python -c pass", nothing), ("import kubernetes.client", client)):
        spread = figures.spread([cpu for _, cpu in theirs])
        print(f"  {name}: CPU {spread}; ours is {_ratio(_cpu(ours), _cpu(theirs))}")


def run(command: Sequence[str], environment: Mapping[str, str]) -> list[tuple[float, float]]:
    """Return wall and CPU seconds of each start of a command, after one to fill caches."""

    def once() -> float:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"{command} exited {process.returncode}"
        return usage.ru_utime + usage.ru_stime

    cpu: list[float] = []
    wall = figures.repeat(lambda: cpu.append(once()), STARTS)
    return list(zip(wall, cpu[1:], strict=True))


def _cpu(starts: Sequence[tuple[float, float]]) -> list[float]:
    return [cpu for _, cpu in starts]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return figures.ratio(min(ours), min(theirs))


if __name__ == "__main__":
    main()
