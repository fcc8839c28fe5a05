"""Fixtures of the end-to-end scenarios: a cluster, the operator in it, a namespace for each test.

`scripts/cluster exec .venv/bin/pytest e2e` uses the local cluster, `--kubeconfig` another one.
"""

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest

from e2e import artifacts, llmd, node_gpus, operator_install, prometheus, prometheus_image
from e2e.cluster import Cluster
from e2e.double import image as double_image
from e2e.engine import image as engine_image
from e2e.kube import Document, Kube
from e2e.llmd import Llmd
from e2e.operator_install import Operator
from e2e.prometheus import Prometheus

OPERATOR_IMAGE = "localhost/tidegate/operator:dev"
LABEL = "tidegate-e2e"
TEST_SECONDS = 420
"""For a scenario that has no limit of its own; the real engines and a hung one take longer."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what tells of another cluster."""
    group = parser.getgroup("tidegate end-to-end")
    group.addoption("--kubeconfig", help="use this cluster; without it the local one")
    for name, ours in (
        ("operator", OPERATOR_IMAGE),
        ("double", double_image.REFERENCE),
        ("engine", engine_image.REFERENCE),
        ("prometheus", prometheus_image.REFERENCE),
    ):
        group.addoption(f"--{name}-image", default=ours, help=f"in place of {ours}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every scenario a limit of time."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def kubeconfig(pytestconfig: pytest.Config) -> Path:
    """The kubeconfig of the cluster under test."""
    named = pytestconfig.getoption("kubeconfig")
    if named:
        return Path(named)
    own = Cluster().kubeconfig
    if os.environ.get("KUBECONFIG") != str(own):
        pytest.fail(
            "not inside of the local cluster: run `scripts/cluster up` and then "
            "`scripts/cluster exec .venv/bin/pytest e2e`, or name another with --kubeconfig",
            pytrace=False,
        )
    return own


@pytest.fixture(scope="session")
def kube(kubeconfig: Path, pytestconfig: pytest.Config) -> Iterator[Kube]:
    """The cluster under test."""
    images = {
        double_image.REFERENCE: pytestconfig.getoption("double_image"),
        engine_image.REFERENCE: pytestconfig.getoption("engine_image"),
    }
    with Kube(kubeconfig, images) as there:
        yield there


@pytest.fixture(scope="session")
def local(pytestconfig: pytest.Config) -> Cluster:
    """The local cluster, for faults that only its owner can cause."""
    if pytestconfig.getoption("kubeconfig"):
        pytest.skip("needs the local cluster: it stops processes and changes nodes")
    return Cluster()


@pytest.fixture(scope="session")
def operator(kube: Kube, pytestconfig: pytest.Config) -> Operator:
    """The operator, installed from this checkout's code."""
    return operator_install.install(kube, pytestconfig.getoption("operator_image"))


@pytest.fixture(scope="session")
def watching(kube: Kube, pytestconfig: pytest.Config) -> Iterator[Prometheus]:
    """A Prometheus in the cluster, with the chart's own scrape configuration and rules."""
    installed = prometheus.install(kube, pytestconfig.getoption("prometheus_image"))
    yield installed
    installed.remove()


@pytest.fixture(scope="session")
def make_namespace(kube: Kube, operator: Operator) -> Iterator[Callable[[str], str]]:
    """Makes namespaces with Pod Security `restricted`; at the end none of them is left."""
    made = _labelled(kube)  # what an interrupted run left behind goes before the first is made
    while made:
        remove_namespace(kube, made.pop())

    def make(word: str) -> str:
        name = f"e2e-{re.sub(r'[^a-z0-9]+', '-', word.lower())[:40].strip('-')}-{_short_id()}"
        kube.kubectl("create", "namespace", name)
        kube.kubectl(
            *("label", "namespace", name, f"{LABEL}=true"),
            "pod-security.kubernetes.io/enforce=restricted",
        )
        made.append(name)
        return name

    yield make
    for name in made:
        remove_namespace(kube, name)


@pytest.fixture
def namespace(
    request: pytest.FixtureRequest, kube: Kube, make_namespace: Callable[[str], str]
) -> Iterator[str]:
    """A namespace of the test's own."""
    name = make_namespace(request.node.originalname.removeprefix("test_"))
    yield name
    remove_namespace(kube, name)


@pytest.fixture(scope="module")
def shared_namespace(
    request: pytest.FixtureRequest, kube: Kube, make_namespace: Callable[[str], str]
) -> Iterator[str]:
    """A namespace for all tests of a module."""
    name = make_namespace(Path(request.module.__file__).stem.removeprefix("test_"))
    yield name
    remove_namespace(kube, name)


@pytest.fixture
def apply(kube: Kube, namespace: str, request: pytest.FixtureRequest) -> Callable[..., Llmd]:
    """Apply a manifest that lies beside the test."""
    folder = Path(request.module.__file__).parent

    def make(file: str, name: str = "", change: Mapping[str, object] | None = None) -> Llmd:
        return llmd.apply(kube, namespace, folder / file, name, change)

    return make


@pytest.fixture(scope="module")
def many_gpus(kube: Kube, local: Cluster) -> Iterator[None]:
    """Nodes with room for many pods at once; their labels, and so their class, stay."""
    node_gpus.let_have(kube, 32)
    yield
    local.up()


@pytest.fixture
def as_before(local: Cluster) -> Iterator[None]:
    """Nodes run and have their labels and GPUs back when the test ends."""
    yield
    local.up()


def remove_namespace(kube: Kube, name: str) -> None:
    """Delete a namespace and end its pods at once, so that their GPUs are free for what follows."""
    kube.try_kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
    words = ("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    kube.try_kubectl("-n", name, *words)


def _short_id() -> str:
    return uuid.uuid4().hex[:6]


# what is kept of a failure


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what tells why a scenario failed, before its namespace goes."""
    report = yield
    arguments: Document = getattr(item, "funcargs", {})
    there = arguments.get("kube")
    if report.failed and call.when != "teardown" and isinstance(there, Kube):
        with contextlib.suppress(OSError):
            folder = artifacts.keep(there, item.nodeid, _namespaces(arguments, there))
            report.sections.append(("artifacts", str(folder)))
    return report


def _namespaces(arguments: Document, kube: Kube) -> list[str]:
    """Return the namespaces that a test used; all of the session when it names none."""
    named = {arguments[key] for key in ("namespace", "shared_namespace") if key in arguments}
    named |= {value.namespace for value in arguments.values() if isinstance(value, Llmd)}
    if named:
        return sorted(named)
    return _labelled(kube)


def _labelled(kube: Kube) -> list[str]:
    """Return the namespaces that scenarios have made."""
    words = ("get", "namespaces", f"-l{LABEL}=true", "-o", "name")
    return [line.partition("/")[2] for line in kube.try_kubectl(*words).stdout.split()]
