"""One `kubectl port-forward` to the admin port of a pod, from its start to its end."""

import asyncio
import contextlib
import re
import shutil
from asyncio.subprocess import Process

from tidegate.cli.cluster.access import Cluster
from tidegate.core import names

_OPEN_SECONDS = 10.0
_END_SECONDS = 2.0
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


class Forward:
    """A process that forwards `port` of loopback; whoever opens it ends it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._reading: asyncio.Task[None] | None = None
        self.port = 0

    @classmethod
    async def open(cls, cluster: Cluster, pod: str) -> "Forward":
        """Start one and wait until it forwards; one that does not is ended.

        Raises:
            OSError: There is no kubectl, or it cannot forward.
            TimeoutError: It does not forward in time.
        """
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise FileNotFoundError("there is no kubectl")
        process = await asyncio.create_subprocess_exec(
            *(kubectl, *cluster.access.kubectl_options(), "-n", cluster.namespace),
            *("port-forward", f"pod/{pod}", f":{names.GATE_ADMIN_PORT}"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            process_group=0,  # ctrl-c is for the command, which then ends the forward
        )
        forward = cls(process)
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                line = await process.stdout.readline() if process.stdout else b""
            match = _FORWARDING.search(line)
            if match is None:
                raise OSError("kubectl could not forward")
        except BaseException:
            await forward.end()
            raise
        forward.port = int(match[1])
        forward._reading = asyncio.create_task(forward._read_on())
        return forward

    @property
    def has_ended(self) -> bool:
        """Tell whether the process has ended by itself, as it does when the pod is gone."""
        return self._process.returncode is not None

    async def end(self) -> None:
        """End the process; once is enough."""
        if self._reading is not None:
            self._reading.cancel()
        if not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
        await self._process.wait()

    async def _read_on(self) -> None:
        """Read what it says of each connection: a full pipe would stop it."""
        while self._process.stdout and await self._process.stdout.read(65536):
            pass
