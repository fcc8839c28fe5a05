"""The gate's process: wires its parts, serves, and leaves in good order when it is told to stop."""

import asyncio
import gc
import logging
import os

import uvloop
from prometheus_client import disable_created_metrics

from tidegate.api.gate_config import Deadlines
from tidegate.core import names
from tidegate.gate.shell import admin, container, listening, pod_metrics, upkeep
from tidegate.gate.shell.cluster_source import ClusterSource
from tidegate.gate.shell.file_source import FileSource
from tidegate.gate.shell.file_watch import FileWatch
from tidegate.gate.shell.gate import Gate, MakeSource
from tidegate.gate.shell.large_bodies import LargeBodies
from tidegate.gate.shell.metrics import Metrics
from tidegate.gate.shell.pair_probe import PairProbe
from tidegate.gate.shell.request_log import RequestLog
from tidegate.gate.shell.settings import ByFiles, Settings
from tidegate.gate.shell.stopping import Stopping
from tidegate.gate.shell.tracing import Exporter, Tracing
from tidegate.gate.wire import server
from tidegate.gate.wire.memory import USUAL_BYTES, Memory
from tidegate.gate.wire.server import Server

_LOG = logging.getLogger(__name__)
_COLLECTED_EVERY = (5_000, 20, 100)
"""New objects until the young are looked through, which takes 0.5 ms; and so on by generation."""


def run(settings: Settings) -> None:
    """Run a gate until it is told to stop.

    Raises:
        Invalid: A port cannot be bound.
    """
    most_files = listening.raise_open_files()
    disable_created_metrics()  # type: ignore[no-untyped-call]  # theirs; a second series each
    uvloop.run(_run(settings, most_files))


async def _run(settings: Settings, most_files: int | None) -> None:
    stopping = Stopping()
    metrics = Metrics()
    exporter = Exporter.of_environment(os.environ)
    tracing = Tracing(exporter, metrics.spans_dropped.inc) if exporter else None
    log = RequestLog(settings.request_log)
    listeners = [log.finished, tracing.finished] if tracing else [log.finished]
    gate = Gate(settings.namespace, settings.deployment, metrics, _source(settings), listeners)
    beat = upkeep.Beat(gate.admissions.tick, metrics)
    parts = {"beat": beat.run, "source": gate.source.run}
    if tracing is not None:
        parts["tracing"] = tracing.run
    if settings.keys_file is not None:
        keys = FileWatch(settings.keys_file, gate.take_keys)
        await keys.look()  # before the first request
        parts["keys"] = keys.run
    gate.source.start()
    memory = Memory(container.memory_bytes() or USUAL_BYTES)
    large = LargeBodies(memory)
    serving = await _serve(gate, settings, memory, large, most_files)
    answers = admin.Answers(
        registry=metrics.registry,
        is_alive=beat.is_alive,
        why_not_ready=gate.why_not_ready,
        told=gate.configuration.told,
        pods=lambda: pod_metrics.document(gate.view()),
        probe=PairProbe(gate, serving.probe).probe,
    )
    sockets = listening.sockets(settings.host, settings.admin_port, "--admin-port")
    runner = await admin.serve(answers, sockets)
    tasks = [asyncio.create_task(upkeep.keep(part, run, metrics)) for part, run in parts.items()]
    _collect_seldom()
    _LOG.info("serving", extra={"port": settings.port, "adminPort": settings.admin_port})
    try:
        await stopping.asked()
        await _leave(gate, serving, stopping, settings.linger_seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await gate.close()
        await large.close()
        await runner.cleanup()


def _collect_seldom() -> None:
    """Look for rings of garbage seldom, and not through what lives for ever.

    A request leaves none, so there is little to find; a look through all that a thousand streams
    hold takes 30 ms, in which no token moves.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_EVERY)


def _source(settings: Settings) -> MakeSource:
    told = settings.source
    if isinstance(told, ByFiles):
        return lambda config, changed: FileSource(told.config, told.endpoints, config, changed)
    config_map = names.gate_name(settings.deployment)
    return lambda config, changed: ClusterSource(
        told.account, settings.namespace, config_map, told.state, config, changed
    )


async def _serve(
    gate: Gate, settings: Settings, memory: Memory, large: LargeBodies, most_files: int | None
) -> Server:
    def peer(deployment: str, port: int) -> tuple[str, int]:
        return settings.peers.get(deployment, (f"{deployment}.{settings.namespace}.svc", port))

    sockets = listening.sockets(settings.host, settings.port, "--port")
    return await server.serve(
        gate.reader,
        gate.admissions,
        gate.config,
        sockets,
        gate.telemetry,
        peer,
        memory,
        large.read,
        most_files,
    )


async def _leave(gate: Gate, serving: Server, stopping: Stopping, linger_seconds: float) -> None:
    """Say that it is going, serve those who have not heard yet, and let what is in flight end."""
    gate.leave()
    _LOG.info("leaving", extra={"inFlight": serving.in_flight})
    config = gate.config()
    deadline_seconds = (config.deadlines if config else Deadlines()).drain
    if await stopping.at_once_within(linger_seconds):
        deadline_seconds = 0.0
    draining = asyncio.create_task(serving.drain(deadline_seconds))
    at_once = asyncio.create_task(stopping.at_once())
    await asyncio.wait({draining, at_once}, return_when=asyncio.FIRST_COMPLETED)
    at_once.cancel()
    if not draining.done():
        draining.cancel()
        draining = asyncio.create_task(serving.drain(0.0))
    _LOG.info("stopped", extra={"allServed": await draining})
