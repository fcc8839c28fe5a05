"""Clients who arrive at a steady rate, whatever became of those before them, and what they got."""

import asyncio
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import aiohttp

MODEL = "tiny"
TOP, LOW = 9, 2
"""Classes of the clients: two of three are of the low one, which may be shed."""
_CLASSES = (LOW, LOW, TOP)
_CLIENT_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What one client got.

    Attributes:
        at: When it came, in monotonic seconds.
        priority: The client's class.
        status: The status of the answer; 0 where there was none.
        reason: `x-tidegate-reason` of a refusal.
        served_by: The deployment that served it in place of the one that was asked.
        fault: What went wrong without an answer.
    """

    at: float
    priority: int
    status: int = 0
    reason: str = ""
    served_by: str = ""
    fault: str = ""


@dataclass
class Load:
    """Requests to one gate in a thread; a context manager that sends until its end.

    Attributes:
        url: The gate's.
        per_second: Requests that come, at even distances.
        prompt_tokens: Length of their prompts, of one token each.
        output_tokens: Length of their answers.
    """

    url: str
    per_second: float
    prompt_tokens: int = 400
    output_tokens: int = 60
    answers: list[Answer] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._offer()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send nothing more, and wait for the answers that are due."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def since(self, moment: float) -> Sequence[Answer]:
        """Return what came after a moment of `time.monotonic`."""
        return [answer for answer in self.answers if answer.at >= moment]

    async def _offer(self) -> None:
        begun = time.monotonic()
        tasks = set()
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),  # each may meet another gate
            timeout=aiohttp.ClientTimeout(_CLIENT_SECONDS),
        ) as session:
            for number in itertools.count():
                wait = begun + number / self.per_second - time.monotonic()
                await asyncio.sleep(max(0.0, wait))
                if self._over.is_set():
                    break
                task = asyncio.create_task(self._ask(session, number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.gather(*tasks)

    async def _ask(self, session: aiohttp.ClientSession, number: int) -> None:
        priority = _CLASSES[number % len(_CLASSES)]
        words = [random.choice((" hello", " world")) for _ in range(self.prompt_tokens)]
        body = {
            "model": MODEL,
            "prompt": "".join(words),  # each its own: a prefix cache would hold but one
            "max_tokens": self.output_tokens,
            "ignore_eos": True,
        }
        headers = {"x-tidegate-priority": str(priority)}
        try:
            url = f"{self.url}/v1/completions"
            async with session.post(url, json=body, headers=headers) as answer:
                await answer.read()
                told = answer.headers
                got = Answer(
                    time.monotonic(),
                    priority,
                    answer.status,
                    told.get("x-tidegate-reason", ""),
                    told.get("x-tidegate-served-by", ""),
                )
        except (aiohttp.ClientError, TimeoutError) as error:
            got = Answer(time.monotonic(), priority, fault=repr(error))
        self.answers.append(got)


def told(answers: Sequence[Answer]) -> Counter[tuple[int, int, str, str]]:
    """Count answers by class, status, reason and who served: for messages of failures."""
    return Counter((a.priority, a.status, a.reason, a.served_by or a.fault) for a in answers)
