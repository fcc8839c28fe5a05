"""The `vllm` command of the double: `vllm serve MODEL --flags`, with vLLM's exit codes.

Code 2 for arguments that the parser refuses, 1 for a configuration or engine that does not start,
0 for a clean stop and, as with vLLM, for an engine that died while serving.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from types import FrameType

from e2e.double import config, failures, flags, logs, settings
from e2e.double.config import EngineConfig
from e2e.double.errors import StartFailed
from e2e.double.settings import Settings

INTERRUPTED_CODE = 130


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code of the container."""
    arguments = list(sys.argv[1:] if args is None else args)
    environment = dict(os.environ)
    try:
        world = settings.read(environment)
        table = flags.read_table(world.vllm_version)
        parser = flags.make_parser(table)
        cause = failures.due(world) if arguments[:1] == ["serve"] else ""
    except ValueError as error:
        print(f"double: error: {error}", file=sys.stderr)
        return 2
    if arguments[:1] in (["--version"], ["-v"]):
        print(world.vllm_version)
        return 0
    if arguments[:1] != ["serve"]:
        parser.error(f"the double knows `vllm serve` only, got: {arguments}")
    if cause == failures.UNKNOWN_FLAG:
        parser.refuse_unknown(["--swap-space", "4"])
    given = parser.parse(arguments[1:])
    if given.config:
        parser.error("the double reads no --config files: give the flags themselves")
    try:
        checked = _check(given, world, cause, environment, table["kvConnectors"])
        return _serve(checked, cause, environment)
    except StartFailed as failure:
        report(failure)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED_CODE


def report(failure: StartFailed) -> None:
    """Print a failed start as vLLM does: the cause is never the last line."""
    cause = f"{failure.error}: {failure.message}"
    if failure.process == "APIServer":
        frames = ['File "/usr/local/bin/vllm", line 10, in <module>', "  sys.exit(main())"]
        logs.traceback("APIServer", frames, cause)
        return
    if failure.process == "Worker":
        logs.error("multiproc_executor.py:900", "WorkerProc failed to start.", process="Worker")
        logs.error(
            "multiproc_executor.py:900",
            f"Traceback (most recent call last):\n{cause}",
            process="Worker",
        )
    logs.error("core.py:1510", "EngineCore failed to start.")
    logs.error("core.py:1510", f"Traceback (most recent call last):\n{cause}")
    logs.traceback(
        "EngineCore", ['File "vllm/v1/engine/core.py", line 1502, in run_engine_core'], cause
    )
    logs.traceback(
        "APIServer",
        ['File "vllm/v1/engine/utils.py", line 1434, in wait_for_engine_startup'],
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
        "proc(s): {'EngineCore': 1}",
    )


def _check(
    given: Namespace,
    world: Settings,
    cause: str,
    environment: Mapping[str, str],
    connectors: Collection[str],
) -> EngineConfig:
    name = given.model_tag or given.model or ""
    version = world.vllm_version
    logs.info("api_utils.py:347", f"vLLM server version {version}, serving model {name}")
    logs.info("api_utils.py:240", f"non-default args: {_non_default(given)}")
    failures.raise_hub_failure(cause, name, given.revision, environment)
    checked = config.read(given, world, environment, connectors)
    limits = checked.limits
    logs.info("model.py:1890", f"Using max model len {limits.max_model_len}")
    if limits.is_chunked:
        tokens = limits.max_batched_tokens
        message = f"Chunked prefill is enabled with max_num_batched_tokens={tokens}."
        logs.info("scheduler.py:307", message)
    return checked


def _serve(checked: EngineConfig, cause: str, environment: Mapping[str, str]) -> int:
    from e2e.double import lifecycle  # the HTTP library is loaded only where it serves

    try:
        port = lifecycle.bind(checked)
    except OSError as error:
        message = f"[Errno {error.errno}] {error.strerror}"
        raise StartFailed("APIServer", "OSError", message) from error
    with port:
        asyncio.run(lifecycle.run(checked, port, cause, environment))
    return 0


def _non_default(given: Namespace) -> dict[str, object]:
    return {name: value for name, value in sorted(vars(given).items()) if value is not None}


def interrupt_on_sigterm() -> None:
    """End a start that is under way at SIGTERM; the server has its own handler later."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("terminated")
