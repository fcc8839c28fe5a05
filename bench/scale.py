"""Many deployments at once: how long until all are ready, and what it costs.

Usage: python -m bench.scale [--deployments 200]   (as root)

The baseline, taken just before on the same nodes, is as many of Kubernetes' own Deployments with as
many pods. Times are to when an object's own status says that it is ready, as seen by a watch.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.cluster import Cluster
from e2e.engine.metrics import Metrics

from bench import deployments, figures, operator_process, private_cluster, rest
from bench.operator_process import OperatorProcess
from bench.private_cluster import DEPLOYMENTS, LLMDEPLOYMENTS, Collection, Document, Readiness

READY_SECONDS = 600.0
REMOVE_SECONDS = 300.0
RESYNC_SECONDS = 30
REST_SECONDS = 60.0
SPARE = 1.2
"""GPUs for each pod that is asked for."""
REST_GOAL = 0.10
"""Of one core, at rest."""


@dataclass(frozen=True)
class Run:
    """How one kind got ready: seconds since the first was applied, CPU seconds by process."""

    applied: float
    ready: Sequence[float]
    cpu: Mapping[str, float]


def main() -> int:
    """Print the figures; fail if a status is wrong at the end."""
    options = _parser().parse_args()
    count = options.deployments
    gpus = SPARE * count * deployments.PODS_OF_EACH
    nodes = 2 * max(1, round(gpus / private_cluster.GPUS_OF_A_NODE / 2))
    with tempfile.TemporaryDirectory() as folder, private_cluster.started(nodes) as cluster:
        print(f"{count} deployments of {deployments.PODS_OF_EACH} pods, {nodes} hollow nodes")
        baseline = get_ready(cluster, DEPLOYMENTS, deployments.plain(count))
        private_cluster.remove_all(cluster, DEPLOYMENTS.path, REMOVE_SECONDS)
        log = options.log or Path(folder) / "operator.log"
        with operator_process.started(cluster, RESYNC_SECONDS, log, options.profile) as operator:
            empty, before = operator.memory_bytes(), operator.metrics()
            audited, cpu = private_cluster.audited(), operator.cpu_seconds()
            run = get_ready(cluster, LLMDEPLOYMENTS, deployments.llmdeployments(count))
            time.sleep(rest.SETTLE_SECONDS)
            cpu = operator.cpu_seconds() - cpu
            print_run(run, baseline)
            print_passes(operator, before, private_cluster.audited() - audited, cpu, count)
            print_memory(operator, empty, count)
            wrong = wrong_statuses(cluster, count)
            print(f"\nstatuses that are wrong: {len(wrong)} of {count}", *wrong[:10], sep="\n  ")
            failed = rest.measure(cluster, operator, count, REST_SECONDS)
            print(f"  goal: below {100 * REST_GOAL:.0f} % of a core with resync {RESYNC_SECONDS} s")
            return 1 if wrong or failed else 0


def get_ready(cluster: Cluster, collection: Collection, documents: Sequence[Document]) -> Run:
    """Apply everything at once and wait until all of it is ready."""
    cpu = private_cluster.cpu_of(cluster)
    with Readiness(cluster, collection) as readiness:
        begun = time.monotonic()
        private_cluster.create(cluster, collection.path, documents)
        applied = time.monotonic() - begun
        readiness.wait(len(documents), READY_SECONDS)
    used = {name: now - cpu[name] for name, now in private_cluster.cpu_of(cluster).items()}
    return Run(applied, [since - begun for since in readiness.since.values()], used)


def wrong_statuses(cluster: Cluster, count: int) -> list[str]:
    """Return what statuses tell otherwise than the pods that are there, or than each other."""
    with cluster.client() as client:
        found = client.get(LLMDEPLOYMENTS.path)["items"]
        pods = client.get(private_cluster.PODS)["items"]
    running: Counter[str] = Counter(
        pod["metadata"]["labels"]["tidegate.io/deployment"] for pod in pods if _is_ready(pod)
    )
    wrong = [] if len(found) == count else [f"{len(found)} are there"]
    tokens: dict[str, set[int]] = {}
    for document in found:
        name, status = document["metadata"]["name"], document["status"]
        planned = sum(entry["replicas"] for entry in status["plan"])
        ready = sum(pool["ready"] for pool in status["pools"])
        told = (planned, ready, running[name])
        asked = deployments.PODS_OF_EACH
        if told != (asked, asked, asked) or not private_cluster.is_served(document):
            wrong.append(f"{name}: planned, ready, running: {told}; status.pods {status['pods']}")
        tokens.setdefault(status["mode"], set()).add(status["kvTokens"])
    wrong += [f"{mode}: KV tokens differ: {seen}" for mode, seen in tokens.items() if len(seen) > 1]
    return wrong


def print_run(run: Run, baseline: Run) -> None:
    """Print the times of our kind beside those of the baseline."""
    rows = [("all applied", run.applied, baseline.applied)]
    rows += [
        (f"{name} ready", figures.percentile(run.ready, at), figures.percentile(baseline.ready, at))
        for name, at in (("half", 0.5), ("95 %", 0.95), ("all", 1.0))
    ]
    print("\nseconds from the first apply   LLMDeployment   Deployment    ratio")
    for name, ours, theirs in rows:
        print(f"  {name:28} {ours:13.1f} {theirs:12.1f} {figures.ratio(ours, theirs):>8}")
    print("CPU seconds of the cluster")
    for name, ours in run.cpu.items():
        theirs = baseline.cpu[name]
        print(f"  {name:28} {ours:13.1f} {theirs:12.1f} {figures.ratio(ours, theirs):>8}")


def print_passes(
    operator: OperatorProcess,
    before: Metrics,
    seen: Counter[tuple[str, str]],
    cpu: float,
    count: int,
) -> None:
    """Print how many passes were made, how long they took, and which calls they led to."""
    after = operator.metrics()
    done = operator_process.passes(before, after)
    calls = operator_process.calls(before, after)
    total = sum(done.values())
    middle, high = (operator_process.pass_seconds(before, after, share) for share in (0.5, 0.95))
    print(f"\npasses: {total}, {total / count:.1f} for each deployment ({rest.listed(done)})")
    print(
        f"  one pass: p50 {1e3 * middle:.0f}, p95 {1e3 * high:.0f} ms, waiting for calls included"
    )
    print(f"  operator CPU: {cpu:.1f} s, {1e3 * cpu / count:.0f} ms for each deployment")
    print(f"calls to the API server: {sum(calls.values()) / total:.2f} for each pass")
    verbs: Counter[str] = Counter()
    for (verb, _), number in calls.items():
        verbs[verb] += number
    for verb, number in verbs.most_common():
        print(f"  {verb:8} {number / total:6.2f} a pass, {number / count:6.2f} a deployment")
    print(f"  in full: {rest.listed(calls)}")
    print(f"  as the API server saw them: {rest.listed(seen)}")


def print_memory(operator: OperatorProcess, empty: int, count: int) -> None:
    """Print the operator's resident memory."""
    now, peak = operator.memory_bytes(), operator.memory_bytes("VmHWM")
    each = (now - empty) / count / 1024
    print(
        f"memory: {now / 2**20:.0f} MiB, {empty / 2**20:.0f} MiB before, {peak / 2**20:.0f} at most"
    )
    print(f"  {each:.0f} KiB for each deployment with its pods; {figures.load()}")


def _is_ready(pod: Document) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--deployments", type=int, default=200)
    parser.add_argument("--log", type=Path, help="keep the operator's log here")
    parser.add_argument("--profile", type=Path, help="write a profile (cProfile) of it here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
