"""Clients who stream by the official SDK, at a steady rate, and what became of each of them.

`python -m e2e.streams URL --per-second 8` streams until it is interrupted, and says so.
"""

import argparse
import asyncio
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2
import openai

from e2e.arrivals import Arrivals

_CLIENT_SECONDS = 90.0
_BREAKS = (httpx2.TransportError, ValueError)
"""What the SDK raises where a connection breaks amid a stream, and where half of an event came."""

_TOLD_LATER = "RateLimitError"
"""How a fault begins that names a time to come back: a 429 of the gate."""


@dataclass(frozen=True)
class Stream:
    """One answer, or why there was none.

    Attributes:
        client: Who asked, by the order of their coming.
        begun: When the client asked, in monotonic seconds.
        revision: Of the pod that served it, by `x-tidegate-revision`.
        tokens: Pieces of text that came.
        ended: Why it ended by the engine's word; empty where it broke off.
        fault: What the client was told, or met, in place of an answer.
    """

    client: int
    begun: float
    revision: str = ""
    tokens: int = 0
    ended: str = ""
    fault: str = ""

    @property
    def is_whole(self) -> bool:
        """Say whether the client got what it asked for."""
        return self.ended == "length" and not self.fault


@dataclass
class Streams(Arrivals[openai.AsyncOpenAI]):
    """Streams from one deployment's gates, each over a connection of its own.

    Every try is counted, and the SDK makes none of its own: what a client meets is what is told.

    Attributes:
        prompt_tokens: Length of the prompts.
        output_tokens: Length of the answers.
        tries: Times that a client asks, until it has what it asked for.
        pause_seconds: Between two of them.
    """

    prompt_tokens: int = 20
    output_tokens: int = 12
    tries: int = 1
    pause_seconds: float = 0.5
    model: str = "tiny"
    done: list[Stream] = field(default_factory=list)

    def of(self, revision: str, since: float = 0.0) -> Sequence[Stream]:
        """Return what a revision served, of those who asked after a moment."""
        return [one for one in self.done if one.revision == revision and one.begun >= since]

    def lost(self) -> Counter[str]:
        """Count those who did not get what they asked for, by what they met."""
        return Counter(one.fault or f"broke off: {one}" for one in self.done if not one.is_whole)

    def lost_when_let_in(self) -> Counter[str]:
        """Count as `lost`, without those who were told to come back: they were not let in."""
        lost = self.lost()
        return Counter({fault: n for fault, n in lost.items() if not fault.startswith(_TOLD_LATER)})

    def broken(self) -> Sequence[Stream]:
        """Return the streams that had begun and broke off."""
        return [one for one in self.done if one.tokens and not one.is_whole]

    def unserved(self) -> set[int]:
        """Return the clients who never got what they asked for."""
        return {one.client for one in self.done} - {one.client for one in self.done if one.is_whole}

    def _opened(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=f"{self.url}/v1",
            api_key="none",
            max_retries=0,
            timeout=_CLIENT_SECONDS,
            default_headers={"Connection": "close"},  # the next one may meet another gate
        )

    async def _ask(self, client: openai.AsyncOpenAI, number: int) -> None:
        for _ in range(self.tries):
            got = await self._once(client, number)
            self.done.append(got)
            if got.is_whole:
                return
            await asyncio.sleep(self.pause_seconds)

    async def _once(self, client: openai.AsyncOpenAI, number: int) -> Stream:
        words = random.choices((" hello", " world"), k=self.prompt_tokens)
        begun, revision, tokens, ended, fault = time.monotonic(), "", 0, "", ""
        try:
            answer = await client.completions.with_raw_response.create(
                model=self.model,
                prompt="".join(words),  # each its own: a prefix cache would hold but one
                max_tokens=self.output_tokens,
                stream=True,
                extra_body={"ignore_eos": True},
            )
            revision = answer.headers.get("x-tidegate-revision", "")
            async for chunk in answer.parse():
                tokens += bool(chunk.choices[0].text)
                ended = chunk.choices[0].finish_reason or ended
        except (openai.OpenAIError, *_BREAKS) as error:
            fault = repr(error)
        return Stream(number, begun, revision, tokens, ended, fault)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Stream from a gate until SIGINT or SIGTERM.")
    parser.add_argument("url")
    parser.add_argument("--per-second", type=float, default=8.0)
    asked = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with Streams(asked.url, asked.per_second) as streams:
        over.wait()
    lost = streams.lost()
    print(f"{len(streams.done)} streams, {lost.total()} of them lost")
    for revision, count in Counter(one.revision for one in streams.done).most_common():
        print(f"  {count} by revision {revision or 'unknown'}")
    for fault, count in lost.most_common():
        print(f"  lost: {count} times {fault}")


if __name__ == "__main__":
    _main()
