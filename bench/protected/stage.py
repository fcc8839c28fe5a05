"""Engines, gates and Prometheus as processes on this machine, wired as a cluster would."""

import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.double.process import free_port
from tests.shell.prometheus_server import PrometheusServer, Target

from bench.gate_cost import running
from bench.goodput import engines, regimes
from bench.protected.lies import LyingEngine

NAMESPACE = "bench"
NAME, OTHER = "tiny", "spill"
TOP, MIDDLE, LOW = 9, 5, 2
"""Classes of the clients; the top one is never shed."""


@dataclass
class Deployment:
    """One engine with one gate; what the operator would write is written into `config`."""

    name: str
    engine: str
    url: str
    config: Path
    exposition: LyingEngine
    admin_port: int
    document: dict[str, Any] = field(default_factory=dict)

    def write(self, **shares: Any) -> None:
        """Give the gate its configuration, with these shares."""
        told = self.document | {key: value for key, value in shares.items() if value is not None}
        fresh = self.config.with_suffix(".new")
        fresh.write_text(json.dumps(told))
        fresh.replace(self.config)

    def targets(self) -> list[Target]:
        """Return what Prometheus scrapes of it, under the labels of our scrape configuration."""
        of_it = {"namespace": NAMESPACE, "llmdeployment": self.name}
        pod = {"pod": f"{self.name}-0", "pool": "unified", "revision": "r1"}
        return [
            Target("tidegate-engines", self.exposition.port, of_it | pod),
            Target("tidegate-gates", self.admin_port, of_it | {"instance": f"{self.name}-gate"}),
        ]

    def shares(self) -> tuple[float, float]:
        """Return what the gate sheds and shifts now, in percent."""
        place = f"http://127.0.0.1:{self.admin_port}/podz"
        with urllib.request.urlopen(place, timeout=5) as answer:
            shown = json.load(answer)
        return shown["shedPercent"], shown["shiftPercent"]


@contextmanager
def deployments(
    kind: str, place: Path, slo_seconds: float, both: bool
) -> Iterator[list[Deployment]]:
    """Run one deployment, or `both` that a shift needs; the first one is that under load."""
    with ExitStack() as stack:
        made: list[Deployment] = []
        for name in (OTHER, NAME) if both else (NAME,):
            home = place / name
            home.mkdir()
            engine = stack.enter_context(engines.engine(kind, home, kv_times=1))
            peers = {one.name: one.url for one in made}
            made.append(stack.enter_context(_gate(name, engine, home, slo_seconds, peers)))
        yield made[::-1]


@contextmanager
def _gate(
    name: str, engine: str, home: Path, slo_seconds: float, peers: dict[str, str]
) -> Iterator[Deployment]:
    """Run the gate of an engine."""
    document = {
        **regimes.gate_config(1, slo_seconds),
        "deployment": name,
        "gateService": name,
        "services": {"unified": f"{name}-unified"},
        "tenants": {"defaultPriority": TOP},
    }
    pod = {"name": f"{name}-0", "slice": "tiny-a", "address": "127.0.0.1"}
    pods = [pod | {"port": int(engine.rpartition(":")[2])}]
    config, endpoints = home / "gate.json", home / "endpoints.json"
    config.write_text(json.dumps(document))
    endpoints.write_text(json.dumps({"pods": pods}))
    port, admin_port = free_port(), free_port()
    command = [
        *(sys.executable, "-m", "tidegate", "gate", "--namespace", NAMESPACE),
        *("--deployment", name, "--host", "127.0.0.1", "--log-requests", "none"),
        *("--port", str(port), "--admin-port", str(admin_port)),
        *("--config-file", str(config), "--endpoints-file", str(endpoints)),
        *(word for to, url in peers.items() for word in ("--peer", f"{to}={url[7:]}")),
    ]
    with running(command, port), LyingEngine(engine) as exposition:
        url = f"http://127.0.0.1:{port}"
        yield Deployment(name, engine, url, config, exposition, admin_port, document)


def prometheus(made: list[Deployment], scrape_seconds: float) -> PrometheusServer:
    """Return a Prometheus that scrapes them; a context manager."""
    targets = [target for one in made for target in one.targets()]
    return PrometheusServer(targets, scrape_seconds)
