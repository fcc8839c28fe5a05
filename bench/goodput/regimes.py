"""What stands between clients and the engine, as processes that are started for each run."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.double.process import free_port

from bench.gate_cost import router_command, running
from bench.goodput import engines, venvs
from bench.goodput.mixes import MAX_MODEL_LEN

ROUTER = "vllm-router==0.1.17"
CAPS = (4, 8, 16, 32)
MAX_QUEUED = 16
"""vLLM's own limit counts those that run, too: about what the cache holds of mix A."""
GATE = "gate"

Command = Callable[[int, int, Path], Sequence[str]]
"""How a process is run: its port, the engine's port, a folder for files."""


@dataclass(frozen=True)
class Regime:
    """A way to the engine; without a command clients ask the engine itself."""

    name: str
    command: Command | None = None
    max_queued: int | None = None
    """The engine's own limit."""


def regimes(caps: Sequence[int], kv_times: int, slo_seconds: float) -> tuple[list[Regime], str]:
    """Return all regimes, and what is left out and why."""
    found = [
        Regime("no gate"),
        Regime(f"vLLM --max-num-queued-reqs {MAX_QUEUED}", max_queued=MAX_QUEUED),
        *(Regime(f"cap {cap}", cap_command(cap)) for cap in caps),
    ]
    router = venvs.tool("vllm-router", ROUTER, "vllm-router")
    if isinstance(router, Path):
        found.append(Regime("vllm-router", router_command(router)))
    found.append(Regime(GATE, gate_command(kv_times, slo_seconds)))
    return found, "" if isinstance(router, Path) else f"vllm-router is left out: {router}"


@contextmanager
def started(regime: Regime, engine_url: str, place: Path) -> Iterator[str]:
    """Run a regime in front of an engine; yield the URL for clients."""
    if regime.command is None:
        yield engine_url
        return
    port = free_port()
    engine_port = int(engine_url.rsplit(":", 1)[1])
    with running(regime.command(port, engine_port, place), port):
        yield f"http://127.0.0.1:{port}"


def cap_command(cap: int) -> Command:
    """Return how the relay with a fixed cap is run."""

    def command(port: int, engine_port: int, place: Path) -> Sequence[str]:
        words = ("-m", "bench.goodput.cap_relay", str(port), str(engine_port), str(cap))
        return [sys.executable, *words]

    return command


def gate_command(kv_times: int, slo_seconds: float) -> Command:
    """Return how the gate is run, told what the operator would tell it and nothing more."""
    config = gate_config(kv_times, slo_seconds)

    def command(port: int, engine_port: int, place: Path) -> Sequence[str]:
        pod = {"name": "tiny-0", "slice": "tiny-a", "address": "127.0.0.1", "port": engine_port}
        files = {"config": config, "endpoints": {"pods": [pod]}}
        for name, document in files.items():
            (place / f"gate-{name}.json").write_text(json.dumps(document))
        return [
            *(sys.executable, "-m", "tidegate", "gate", "--namespace", "bench"),
            *("--deployment", "tiny", "--host", "127.0.0.1", "--port", str(port)),
            *("--admin-port", str(free_port())),
            *(word for name in files for word in (f"--{name}-file", f"{place}/gate-{name}.json")),
        ]

    return command


def gate_config(kv_times: int, slo_seconds: float) -> dict[str, object]:
    """Return the gate's configuration for one engine, which is of its own size and speed."""
    blocks = engines.kv_blocks(kv_times)
    return {
        "schemaVersion": "tidegate.io/gate/v1",
        "namespace": "bench",
        "deployment": "tiny",
        "generation": 1,
        "models": ["tiny"],
        "maxModelLen": MAX_MODEL_LEN,
        "gateService": "tiny",
        "services": {"unified": "tiny-unified"},
        "slices": [
            {
                "name": "tiny-a",
                "pool": "unified",
                "revision": "r1",
                "nodeClass": "bench",
                "kvBlocks": blocks,
                "kvTokens": blocks * engines.BLOCK_TOKENS,
                "groups": [{"blockTokens": engines.BLOCK_TOKENS}],
                "maxNumSeqs": engines.MAX_NUM_SEQS,
            }
        ],
        "revisions": [{"name": "r1", "weight": 1}],
        "slo": {"timeToFirstToken": f"{slo_seconds * 1000:.0f}ms"},
    }
