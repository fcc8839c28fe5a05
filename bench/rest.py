"""What the operator does when there is nothing to do: no write, no list, little work.

Usage: python -m bench.rest [--deployments 20] [--resync 5] [--seconds 60]   (as root)
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from e2e.cluster.cluster import Cluster

from bench import deployments, figures, operator_process, private_cluster
from bench.operator_process import OperatorProcess
from bench.private_cluster import LLMDEPLOYMENTS, NAMESPACE, Readiness

READY_SECONDS = 300.0
SETTLE_SECONDS = 15.0
"""After the last is ready its events still come in."""
LEASES = "leases"
"""Leadership is renewed at rest, by one object in the operator's own namespace."""
WATCHED = (
    LLMDEPLOYMENTS.path,
    f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments",
    f"/api/v1/namespaces/{NAMESPACE}/services",
    f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    f"/api/v1/namespaces/{NAMESPACE}/events",
    f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets",
    f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies",
)


def main() -> int:
    """Print what happened at rest; fail if anything was written or listed."""
    options = _parser().parse_args()
    gpus = options.deployments * deployments.PODS_OF_EACH
    nodes = 2 * max(1, gpus // private_cluster.GPUS_OF_A_NODE)
    with tempfile.TemporaryDirectory() as folder, private_cluster.started(nodes) as cluster:
        log = Path(folder) / "operator.log"
        with operator_process.started(cluster, options.resync, log) as operator:
            with Readiness(cluster, LLMDEPLOYMENTS) as readiness:
                documents = deployments.llmdeployments(options.deployments)
                private_cluster.create(cluster, LLMDEPLOYMENTS.path, documents)
                readiness.wait(options.deployments, READY_SECONDS)
            time.sleep(SETTLE_SECONDS)
            return measure(cluster, operator, options.deployments, options.seconds)


def measure(cluster: Cluster, operator: OperatorProcess, count: int, seconds: float) -> int:
    """Look before and after some time of rest; return 1 if something was written or listed."""
    versions = private_cluster.versions(cluster, WATCHED)
    scraped, audited = operator.metrics(), private_cluster.audited()
    cpu, control = operator.cpu_seconds(), private_cluster.cpu_of(cluster)
    begun = time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - begun
    cpu = operator.cpu_seconds() - cpu
    manager = "kube-controller-manager"
    theirs = private_cluster.cpu_of(cluster)[manager] - control[manager]
    seen = private_cluster.audited() - audited
    after = operator.metrics()
    changed = private_cluster.versions(cluster, WATCHED).items() ^ versions.items()
    told = operator_process.calls(scraped, after)
    done = operator_process.passes(scraped, after)

    print(f"\nat rest: {count} deployments, {lasted:.0f} s")
    print(f"  objects that changed: {len(changed)} of {len(versions)}")
    print(f"  calls seen by the API server: {listed(seen)}")
    print(f"  calls told by the operator:   {listed(told)}")
    print(f"  passes: {sum(done.values())} ({listed(done)})")
    shares = [operator_process.pass_seconds(scraped, after, share) for share in (0.5, 0.95)]
    print(f"  pass: p50 {1e3 * shares[0]:.1f}, p95 {1e3 * shares[1]:.1f} ms")
    print(f"  CPU: {100 * cpu / lasted:.1f} % of a core, {figures.ratio(cpu, theirs)} of {manager}")
    print(f"  CPU per pass: {1e3 * cpu / max(1, sum(done.values())):.2f} ms, all else included")
    print(f"  memory: {operator.memory_bytes() / 2**20:.0f} MiB")
    print(f"  {figures.load()}")
    return 1 if changed or _forbidden(seen) or _forbidden(told) else 0


def _forbidden(calls: Counter[tuple[str, str]]) -> int:
    """Return how many calls were lists, or writes of anything but the Lease."""
    reads = ("get", "watch")
    return sum(
        count
        for (verb, resource), count in calls.items()
        if verb not in reads and resource != LEASES
    )


def listed(counts: Counter[str] | Counter[tuple[str, str]]) -> str:
    """Return counts in words."""
    named = (
        f"{count} {key if isinstance(key, str) else ' '.join(key)}"
        for key, count in sorted(counts.items())
    )
    return ", ".join(named) or "none"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.rest", description=__doc__)
    parser.add_argument("--deployments", type=int, default=20)
    parser.add_argument("--resync", type=int, default=5, help="seconds between looks at everything")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to watch")
    return parser


if __name__ == "__main__":
    sys.exit(main())
