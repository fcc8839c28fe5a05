"""Clients who arrive at a steady rate, whatever became of those before them, and what they got."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from e2e.arrivals import Arrivals

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
class Load(Arrivals[aiohttp.ClientSession]):
    """Requests to one gate.

    Attributes:
        prompt_tokens: Length of their prompts, of one token each.
        output_tokens: Length of their answers.
    """

    prompt_tokens: int = 400
    output_tokens: int = 60
    answers: list[Answer] = field(default_factory=list)

    def since(self, moment: float) -> Sequence[Answer]:
        """Return what came after a moment of `time.monotonic`."""
        return [answer for answer in self.answers if answer.at >= moment]

    def _opened(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),  # each may meet another gate
            timeout=aiohttp.ClientTimeout(_CLIENT_SECONDS),
        )

    async def _ask(self, client: aiohttp.ClientSession, number: int) -> None:
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
            async with client.post(url, json=body, headers=headers) as answer:
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
