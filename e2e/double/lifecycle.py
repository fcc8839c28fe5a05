"""From a checked configuration to the end of the process: start, serve, stop, die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping

from aiohttp import web

from e2e.double import exchange, failures, logs, memory, vocabulary
from e2e.double.config import EngineConfig
from e2e.double.engine import Engine
from e2e.double.errors import engine_failed
from e2e.double.memory import Pool
from e2e.double.server import Server, log_shutdown

DEFAULT_SIDE_CHANNEL_PORT = 5600
REFUSE_AFTER_DEATH_SECONDS = 1.0
ABORT_SECONDS = 0.3  # from SIGTERM to the end when nothing is waited for
KEEP_ALIVE_SECONDS = 5.0


def bind(config: EngineConfig) -> socket.socket:
    """Take the port; nobody is answered before `listen`.

    Raises:
        OSError: the port is taken.
    """
    host = config.host or "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, config.port))
    except OSError:
        taken.close()
        raise
    return taken


async def run(
    config: EngineConfig, port: socket.socket, cause: str, environment: Mapping[str, str]
) -> None:
    """Load, serve, and return when the process should end with code 0.

    Raises:
        StartFailed: the engine did not come up.
    """
    engine = await _load(config, cause, environment)
    server = Server(engine)
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    site = web.SockSite(runner, port, backlog=2048)
    await site.start()
    tasks = [asyncio.create_task(engine.run())]
    side_channel = None
    if engine.moves_kv:
        side_channel = await _open_side_channel(engine)
        tasks.append(asyncio.create_task(engine.exchange.heartbeat()))
    if cause in failures.WHILE_SERVING:
        tasks.append(asyncio.create_task(_fail_later(cause, server)))
    tasks.append(asyncio.create_task(_log_load(engine)))
    logs.info("launcher.py:90", "Application startup complete.")
    await _serve(server, site, tasks[0])
    server.ended.set()
    await asyncio.sleep(0)
    if side_channel is not None:
        side_channel.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await runner.cleanup()


async def _load(config: EngineConfig, cause: str, environment: Mapping[str, str]) -> Engine:
    settings = config.settings
    logs.info(
        "core.py:120",
        f"Initializing a V1 LLM engine (v{settings.vllm_version})",
        process="EngineCore",
    )
    await asyncio.sleep(settings.start_seconds)
    if cause == failures.HANG:
        await asyncio.Event().wait()
    if not failures.is_after_load(cause):
        failures.raise_engine_failure(cause, config)
    loaded = memory.gib(settings.non_kv_bytes)
    logs.info(
        "gpu_model_runner.py:5089",
        f"Model loading took {loaded} GiB memory and "
        f"{max(settings.start_seconds, 0.1):.6f} seconds",
        process="Worker",
    )
    failures.raise_engine_failure(cause, config)
    pool = config.pool()
    _log_pool(config, pool)
    host = environment.get("VLLM_NIXL_SIDE_CHANNEL_HOST") or "localhost"
    port = int(environment.get("VLLM_NIXL_SIDE_CHANNEL_PORT") or DEFAULT_SIDE_CHANNEL_PORT)
    source = exchange.make_source(config, host, port)
    return Engine(config, pool, vocabulary.load(config.model.folder), source)


def _log_pool(config: EngineConfig, pool: Pool) -> None:
    device = "CPU" if config.settings.device == "cpu" else "GPU"
    for place, message in memory.told(config.wanted, config.memory(), pool, config.settings.device):
        logs.info(place, message, process="Worker")
    if pool.max_model_len < config.limits.max_model_len:
        logs.info(
            "kv_cache_utils.py:2100",
            f"Auto-fit max_model_len: reduced from {config.limits.max_model_len} to "
            f"{pool.max_model_len} to fit in available KV cache memory "
            f"({memory.gib(pool.available_bytes)} GiB)",
            process="EngineCore",
        )
    logs.info(
        "kv_cache_utils.py:2327",
        f"{device} KV cache size: {pool.size_tokens:,} tokens, Maximum concurrency for "
        f"{pool.max_model_len:,} tokens per request: {pool.max_concurrency:.2f}x",
        process="EngineCore",
    )
    logs.info(
        "core.py:310",
        "init engine (profile, create kv cache, warmup model) took "
        f"{config.settings.start_seconds:.2f} s (compilation: 0.00 s)",
        process="EngineCore",
    )


async def _open_side_channel(engine: Engine) -> asyncio.Server:
    source = engine.exchange.source
    try:
        return await engine.exchange.listen()
    except OSError as error:
        where = f"tcp://{source.host}:{source.port}"
        raise engine_failed("zmq.error.ZMQError", f"{error.strerror} (addr='{where}')") from error


async def _serve(server: Server, site: web.SockSite, busy_loop: asyncio.Task[None]) -> None:
    """Wait for SIGTERM or the engine's death, and do what follows."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    waits = [asyncio.create_task(event.wait()) for event in (stopped, server.engine.died)]
    watched = [*waits, busy_loop]
    await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    if stopped.is_set():
        await _stop(server, site, busy_loop)
        return
    if not server.engine.is_dead and (bug := busy_loop.exception()):
        raise bug
    await _die(server, site)


async def _stop(server: Server, site: web.SockSite, busy_loop: asyncio.Task[None]) -> None:
    engine, seconds = server.engine, server.engine.config.shutdown_seconds
    mode = "drain" if seconds else "abort"
    log_shutdown("API server: shutdown triggered")
    log_shutdown(f"API server: stopping engine client mode={mode} timeout={seconds}s")
    log_shutdown(f"EngineCore: start mode={mode} timeout={seconds}s", "EngineCore")
    server.is_draining = True
    if not seconds:
        log_shutdown(
            f"EngineCore: aborting in-flight requests count={engine.open_count}", "EngineCore"
        )
        engine.abort_all()
        await site.stop()
        await asyncio.sleep(ABORT_SECONDS)
        return
    log_shutdown(
        f"EngineCore: draining in-flight requests count={engine.open_count} timeout={seconds}s",
        "EngineCore",
    )
    if await _drained(engine, seconds):
        server.torn_down.set()
        log_shutdown(
            "EngineCore: request processing complete; starting resource teardown", "EngineCore"
        )
        await asyncio.sleep(engine.config.settings.teardown_seconds)
        return
    # What vLLM does at its time limit: the engine is gone, the streams are left without a word.
    log_shutdown(
        f"Process manager: force killing remaining process EngineCore pid {os.getpid() + 1}"
    )
    busy_loop.cancel()
    await site.stop()
    while server.open_requests:
        await asyncio.sleep(0.05)


async def _drained(engine: Engine, seconds: float) -> bool:
    deadline = engine.now() + seconds
    while engine.open_count:
        if engine.now() >= deadline:
            return False
        await asyncio.sleep(0.02)
    return True


async def _die(server: Server, site: web.SockSite) -> None:
    settings = server.engine.config.settings
    is_silent = server.engine.died_silently
    seconds = settings.silent_death_seconds if is_silent else settings.death_seconds
    refuse_after = min(REFUSE_AFTER_DEATH_SECONDS, seconds)
    await asyncio.sleep(refuse_after)
    await site.stop()
    await asyncio.sleep(seconds - refuse_after)


async def _fail_later(cause: str, server: Server) -> None:
    await asyncio.sleep(server.engine.config.settings.fail_after_seconds)
    match cause:
        case failures.OOM_KILL:
            await asyncio.to_thread(failures.run_out_of_memory)
        case failures.EXIT_ZERO:
            logs.error("multiproc_executor.py:316", failures.WORKER_DIED)
            server.engine.die("RuntimeError: Executor failed.")
        case failures.UNHEALTHY:
            server.is_unhealthy = True
        case failures.HANG_LATER:
            server.is_hanging = True


async def _log_load(engine: Engine) -> None:
    """Print the engine's line of every ten seconds while it has work."""
    before = 0
    while True:
        await asyncio.sleep(10)
        scheduler = engine.scheduler
        made = engine.metrics.generated_tokens
        if made == before and not engine.open_count:
            continue
        totals = scheduler.totals
        hit_rate = 100 * totals.local_hits / max(1, totals.local_queries)
        with contextlib.suppress(BrokenPipeError):
            logs.info(
                "loggers.py:310",
                f"Engine 000: Avg generation throughput: {(made - before) / 10:.1f} tokens/s, "
                f"Running: {len(scheduler.running)} reqs, Waiting: {len(scheduler.waiting)} reqs, "
                f"GPU KV cache usage: {100 * scheduler.cache.pool.usage:.1f}%, "
                f"Prefix cache hit rate: {hit_rate:.1f}%",
            )
        before = made
