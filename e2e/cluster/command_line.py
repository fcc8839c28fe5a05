"""The command `scripts/cluster`: words in, a call of `Cluster`, an exit status out."""

import argparse
import os
import sys
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from . import binaries, hollow, images, network, node_classes
from .api import ApiError, Document
from .cluster import Cluster
from .errors import ClusterError
from .settings import CHECKOUT

IMAGES: dict[str, Callable[[], Path]] = {
    "base": images.base_image,
    "operator": images.operator_image,
    "pause": images.pause_image,
}

Command = Callable[[Cluster, argparse.Namespace], int | None]


def main(words: list[str]) -> int:
    """Run one command and return the exit status."""
    options = parser().parse_args(words)
    try:
        return options.command(Cluster(), options) or 0
    except ClusterError as error:
        print(f"cluster: error: {error}", file=sys.stderr)
        return 1
    except (ApiError, OSError, HTTPException) as error:
        print(f"cluster: error: {error}; see `scripts/cluster status`", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """The words that the command understands."""
    top = argparse.ArgumentParser(
        prog="scripts/cluster",
        description="A real Kubernetes cluster on this machine, for tests.",
        epilog="Settings are TIDEGATE_CLUSTER_* variables: docs/guides/local-cluster.md.",
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Command, description: str) -> argparse.ArgumentParser:
        child = commands.add_parser(name, help=description, description=description)
        child.set_defaults(command=command)
        return child

    child = add("up", _up, "start what does not run and wait until it is ready")
    child.add_argument(
        "--nodes", type=int, metavar="N", help="nodes (default 2, or the last time's)"
    )
    child.add_argument("--nodes-file", type=Path, metavar="FILE", help="GPU classes, as nodes.json")
    add("down", lambda cluster, _: cluster.down(), "end everything; state and images stay")
    add("reset", lambda cluster, _: cluster.reset(), "down, and forget objects, nodes and pods")
    add("clean", lambda cluster, _: cluster.clean(), "down, and remove all but the cache")
    add("status", _status, "list the processes and nodes")
    child = add("load-image", _load_image, "give the images of tars to every node")
    child.add_argument("tars", nargs="+", type=Path, metavar="TAR")
    child = add("exec", _exec, "run a command inside the cluster's network, with KUBECONFIG")
    child.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    child = add("stop", _stop, "end a process (kube-apiserver) or a node with its pods (n1)")
    child.add_argument("name", metavar="PROC")
    child.add_argument("--kill", action="store_true", help="SIGKILL at once, as in a crash")
    child = add("start", lambda cluster, given: cluster.start(given.name), "start it again")
    child.add_argument("name", metavar="PROC")
    child = add("build", _build, f"build programs: {', '.join(binaries.RECIPES)}")
    child.add_argument("names", nargs="*", metavar="NAME")
    child = add("build-image", _build_image, f"make an image ({', '.join(IMAGES)}); prints its tar")
    child.add_argument("name", choices=IMAGES, metavar="NAME")
    child.add_argument("--load", action="store_true", help="and give it to every node")
    child = add("hollow", _hollow, "keep nodes without kubelets, until it is interrupted")
    child.add_argument("count", type=int, metavar="N")
    child.add_argument("--class", dest="class_name", default="h100-80gb", metavar="CLASS")
    child.add_argument("--start-seconds", type=float, default=0.0, metavar="S")
    add("kubeconfig", _kubeconfig, "print the kubeconfig's path")
    return top


def _up(cluster: Cluster, options: argparse.Namespace) -> None:
    if options.nodes is not None and not 0 <= options.nodes <= 200:
        raise ClusterError(f"--nodes {options.nodes}: give 0 to 200; see `hollow` for more")
    plan = node_classes.load(options.nodes_file) if options.nodes_file else None
    cluster.up(options.nodes, plan)
    print("ready; next: scripts/cluster exec kubectl get nodes -L nvidia.com/gpu.product")


def _status(cluster: Cluster, _: argparse.Namespace) -> int:
    pids = cluster.pids()
    for name, pid in pids.items():
        print(f"{name:26} {f'pid {pid}' if pid else 'DEAD; `scripts/cluster up` restarts it'}")
    if not pids.get("kube-apiserver"):
        print("the cluster is down; next: scripts/cluster up")
        return 1
    with cluster.client() as client:
        for node in client.get("/api/v1/nodes")["items"]:
            print(_node_line(node))
    return 0 if all(pids.values()) else 1


def _node_line(node: Document) -> str:
    """One node: its name, whether it is ready, and its GPUs."""
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", ())}
    state = "Ready" if conditions.get("Ready") == "True" else "NotReady"
    gpus = node["status"].get("allocatable", {}).get(node_classes.GPU_RESOURCE, "0")
    product = node["metadata"].get("labels", {}).get("nvidia.com/gpu.product", "no GPU")
    return f"node {node['metadata']['name']:21} {state:9} {gpus} x {product}"


def _load_image(cluster: Cluster, options: argparse.Namespace) -> None:
    for tar in options.tars:
        cluster.load_image(tar)


def _exec(cluster: Cluster, options: argparse.Namespace) -> None:
    if not options.words:
        raise ClusterError("exec: give a command, as `scripts/cluster exec kubectl get pods`")
    network.enter(cluster.settings.host_namespace)
    try:
        os.execvpe(options.words[0], options.words, exec_environment(cluster))
    except FileNotFoundError:
        raise ClusterError(f"exec: no program {options.words[0]!r}") from None


def exec_environment(cluster: Cluster) -> dict[str, str]:
    """Return what a command inside gets: with the checkout's programs, so `kubectl tidegate`."""
    env = {**os.environ, **cluster.env()}
    return {**env, "PATH": f"{CHECKOUT / '.venv' / 'bin'}:{env['PATH']}"}


def _stop(cluster: Cluster, options: argparse.Namespace) -> None:
    if options.kill:
        cluster.stop(options.name, grace_seconds=0)
    else:
        cluster.stop(options.name)


def _build(cluster: Cluster, options: argparse.Namespace) -> None:
    names = tuple(options.names) or binaries.REQUIRED
    binaries.build(cluster.settings, names)
    for name in names:
        print(binaries.folder(cluster.settings, name))


def _build_image(cluster: Cluster, options: argparse.Namespace) -> None:
    tar = IMAGES[options.name]()
    print(tar)
    if options.load:
        cluster.load_image(tar)


def _hollow(cluster: Cluster, options: argparse.Namespace) -> None:
    node_class = node_classes.load().named(options.class_name)
    hollow.run(cluster.settings, options.count, node_class, options.start_seconds)


def _kubeconfig(cluster: Cluster, _: argparse.Namespace) -> None:
    print(cluster.kubeconfig)
