"""How a command reads the admin port of gates: by the API server's proxy, else by port-forward.

Where a NetworkPolicy lets the API server not in, `kubectl port-forward` does: its traffic comes
from the pod's own node, inside the pod. A forward is kept for the next read.
"""

import asyncio
import time
from collections import defaultdict
from types import TracebackType

from tidegate.cli.cluster.access import Cluster, message_of
from tidegate.cli.cluster.forward import Forward
from tidegate.core import names
from tidegate.errors import Invalid

_SECONDS = 3.0
_MOST_BYTES = 8 * 2**20
_MOST_FORWARDS = 32
"""Processes of kubectl at once; gates beyond are silent."""
_BACK_OFF_SECONDS = 30.0
"""How long a pod that could not be forwarded to is not tried again."""


class GateSilent(Exception):
    """A gate gave no answer; the message says why."""


class GateReach:
    """Reads gates; used as `async with`, which ends the forwards that were opened."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._forwards: dict[str, Forward] = {}
        self._opening = 0
        self._failed: dict[str, tuple[float, str]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> "GateReach":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.gather(*(self._drop(pod, each) for pod, each in self._known()))

    async def read(self, pod: str, path: str) -> str:
        """Return what a gate answers at a path of its admin port.

        Raises:
            GateSilent: It does not answer in either way.
        """
        forward = self._forwards.get(pod)
        if forward is not None:
            try:
                return await _fetch(forward.port, path)
            except (OSError, TimeoutError):
                await self._drop(pod, forward)  # it broke: begin anew
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
            return await _fetch(await self._port(pod), path)
        except (OSError, TimeoutError) as error:
            told = str(error) or "no answer in time"
            raise GateSilent(f"{why}; by port-forward: {told}") from error

    async def _port(self, pod: str) -> int:
        """Return the port of a pod's forward, which is opened once for all who read the pod."""
        async with self._locks[pod]:
            forward = self._forwards.get(pod)
            if forward is None:
                forward = self._forwards[pod] = await self._opened(pod)
            return forward.port

    async def _opened(self, pod: str) -> Forward:
        until, why = self._failed.get(pod, (0.0, ""))
        if time.monotonic() < until:
            raise OSError(why)
        for other, forward in self._known():
            if forward.has_ended:
                await self._drop(other, forward)
        if len(self._forwards) + self._opening >= _MOST_FORWARDS:
            raise OSError(f"{_MOST_FORWARDS} forwards are open already")
        self._opening += 1
        try:
            return await Forward.open(self._cluster, pod)
        except (OSError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            self._failed[pod] = time.monotonic() + _BACK_OFF_SECONDS, why
            raise
        finally:
            self._opening -= 1

    async def _drop(self, pod: str, forward: Forward) -> None:
        if self._forwards.get(pod) is forward:
            del self._forwards[pod]
        await forward.end()

    def _known(self) -> list[tuple[str, Forward]]:
        return list(self._forwards.items())


async def _fetch(port: int, path: str) -> str:
    import aiohttp

    try:
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"http://127.0.0.1:{port}{path}", allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise GateSilent(f"the gate answers {answer.status}")
            read = bytearray()
            async for piece in answer.content.iter_chunked(65536):
                read += piece
                if len(read) > _MOST_BYTES:
                    raise GateSilent(f"the answer is larger than {_MOST_BYTES // 2**20} MiB")
            return read.decode("utf-8", "replace")
    except aiohttp.ClientError as error:
        raise OSError(str(error)) from error
