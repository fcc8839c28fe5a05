"""How a command reads the admin port of gates: by the API server's proxy, else by port-forward.

Where a NetworkPolicy lets the API server not in, `kubectl port-forward` does: its traffic comes
from the pod's own node, inside the pod. A forward is kept for the next read.
"""

import asyncio
import re
import shutil
from asyncio.subprocess import Process
from contextlib import AsyncExitStack
from types import TracebackType

from tidegate.cli.cluster.access import Cluster, message_of
from tidegate.core import names
from tidegate.errors import Invalid

_SECONDS = 3.0
_FORWARD_SECONDS = 10.0
_MOST_BYTES = 8 * 2**20
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


class GateSilent(Exception):
    """A gate gave no answer; the message says why."""


class GateReach:
    """Reads gates; used as `async with`, which ends the forwards that were opened."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ports: dict[str, int] = {}
        self._ends = AsyncExitStack()

    async def __aenter__(self) -> "GateReach":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._ends.aclose()

    async def read(self, pod: str, path: str) -> str:
        """Return what a gate answers at a path of its admin port.

        Raises:
            GateSilent: It does not answer in either way.
        """
        if pod in self._ports:
            try:
                return await _fetch(self._ports[pod], path)
            except (OSError, TimeoutError):
                del self._ports[pod]  # the forward broke: begin anew
        why = ""
        try:
            status, told = await self._cluster.call(
                "GET",
                f"/api/v1/namespaces/{self._cluster.namespace}/pods/"
                f"{pod}:{names.GATE_ADMIN_PORT}/proxy{path}",
                seconds=_SECONDS,
                as_text=True,
            )
            if status == 200:
                return str(told)
            why = f"{status}: {message_of(told)}"
        except Invalid as error:
            why = error.problems[0].message
        try:
            self._ports[pod] = await self._forward(pod)
            return await _fetch(self._ports[pod], path)
        except (OSError, TimeoutError) as error:
            told = str(error) or "no answer in time"
            raise GateSilent(f"{why}; by port-forward: {told}") from error

    async def _forward(self, pod: str) -> int:
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise FileNotFoundError("there is no kubectl")
        process = await asyncio.create_subprocess_exec(
            *(kubectl, *self._cluster.access.kubectl_options(), "-n", self._cluster.namespace),
            *("port-forward", f"pod/{pod}", f":{names.GATE_ADMIN_PORT}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            process_group=0,  # ctrl-c is for the command, which then ends the forward
        )
        self._ends.push_async_callback(_end, process)
        async with asyncio.timeout(_FORWARD_SECONDS):
            line = await process.stdout.readline() if process.stdout else b""
        match = _FORWARDING.search(line)
        if match is None:
            raise OSError("kubectl could not forward")
        return int(match[1])


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.wait()


async def _fetch(port: int, path: str) -> str:
    import aiohttp

    try:
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"http://127.0.0.1:{port}{path}", allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise OSError(f"the gate answers {answer.status}")
            read = bytearray()
            async for piece in answer.content.iter_chunked(65536):
                read += piece
                if len(read) > _MOST_BYTES:
                    raise OSError(f"the answer is larger than {_MOST_BYTES // 2**20} MiB")
            return read.decode("utf-8", "replace")
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from error
