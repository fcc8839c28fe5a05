"""Reads each pod's own metrics, so that the ledger learns when an engine has less room than it."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable

import aiohttp

from tidegate.gate.exchange import Pod, Scrape
from tidegate.gate.shell import exposition

INTERVAL_SECONDS = 0.5
"""Between two reads of a pod: a page costs the engine's front end 5 ms (measured on vLLM 0.32)."""
_LONGEST_INTERVAL_SECONDS = 2.0
_MOST_PER_SECOND = 50
"""Reads of one gate in all, about 1 ms each: with more than 25 pods each is read less often."""
_DEADLINE_SECONDS = 1.0
_MOST_BYTES = 2**20
_PIECE_BYTES = 64 * 1024


class TooLarge(aiohttp.ClientError):
    """A metrics page over the bound."""


class Scraper:
    """One task for each pod; a pod that does not answer is told of by nothing at all.

    `observe` gets what a pod said, `counted` the result of each read: `good`, `incomplete` (it does
    not tell how full its KV cache is), `unreadable` (nothing in it is known, such as a page of
    HTML), `timeout`, `too-large`, `status` or `unreachable`.
    """

    def __init__(
        self,
        observe: Callable[[str, Scrape], None],
        counted: Callable[[str], None],
        deadline_seconds: float = _DEADLINE_SECONDS,
    ) -> None:
        self._observe = observe
        self._counted = counted
        self._deadline_seconds = deadline_seconds
        self._gates = 1
        self._tasks: dict[Pod, asyncio.Task[None]] = {}
        self._session: aiohttp.ClientSession | None = None

    def follow(self, pods: Iterable[Pod], gates: int) -> None:
        """Read these pods from now on, and no others; `gates` read them besides."""
        self._gates = gates
        wanted = set(pods)
        for pod in self._tasks.keys() - wanted:
            self._tasks.pop(pod).cancel()
        for pod in wanted - self._tasks.keys():
            self._tasks[pod] = asyncio.create_task(self._run(pod))

    async def close(self) -> None:
        """Stop all reading."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def interval_seconds(self) -> float:
        """Return the time between two reads of a pod, over which it is read twice a second at most.

        All gates together keep to that, as far as the ledger's need of fresh numbers allows.
        """
        shared = min(INTERVAL_SECONDS * self._gates, _LONGEST_INTERVAL_SECONDS)
        return max(shared, len(self._tasks) / _MOST_PER_SECOND)

    async def _run(self, pod: Pod) -> None:
        await asyncio.sleep(random.random() * self.interval_seconds())
        while True:
            scrape, result = await self.read(pod)
            self._counted(result)
            if scrape is not None:
                self._observe(pod.name, scrape)
            await asyncio.sleep(self.interval_seconds() * (0.9 + 0.2 * random.random()))

    async def read(self, pod: Pod) -> tuple[Scrape | None, str]:
        """Read one pod now; None and why where it did not tell."""
        try:
            async with asyncio.timeout(self._deadline_seconds):
                page = await self._page(pod)
        except TimeoutError:
            return None, "timeout"
        except TooLarge:
            return None, "too-large"
        except aiohttp.ClientResponseError:
            return None, "status"
        except (aiohttp.ClientError, OSError):
            return None, "unreachable"
        except UnicodeDecodeError:
            return None, "unreadable"
        return _judged(exposition.read(page, time.monotonic()))

    async def _page(self, pod: Pod) -> str:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                trust_env=False, auto_decompress=False, headers={"Accept-Encoding": "identity"}
            )
        host = f"[{pod.address}]" if ":" in pod.address else pod.address
        url = f"http://{host}:{pod.port}/metrics"
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise aiohttp.ClientResponseError(
                    answer.request_info, answer.history, status=answer.status
                )
            read = bytearray()
            async for piece in answer.content.iter_chunked(_PIECE_BYTES):
                read += piece
                if len(read) > _MOST_BYTES:
                    raise TooLarge
        return read.decode()


def _judged(scrape: Scrape) -> tuple[Scrape | None, str]:
    if scrape == Scrape(at=scrape.at):
        return None, "unreadable"
    return scrape, "good" if scrape.kv_usage is not None else "incomplete"
