"""Clients that stream completions, and what each of them saw.

`max_tokens` is what a client claims; its answer ends by a stop token soon after the length that was
drawn for it. That length is in `min_tokens`, which engines need for it and gates read: what they
reserve is nearer to the truth here than before ordinary clients.
"""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
from e2e.engine import tiny_tokenizer

from bench.goodput.mixes import Request

MODEL = "tiny"
WORDS = tiny_tokenizer.words()
STOP_TOKEN_IDS = list(
    range(tiny_tokenizer.FIRST_WORD_ID, tiny_tokenizer.FIRST_WORD_ID + len(WORDS), 2)
)
"""Every second word: where they may end an answer they do so within about two tokens."""
EXTRA_TOKENS = 2
DATA, DONE = b"data: ", b"[DONE]"
GOING_ON = (b'"finish_reason":null', b'"finish_reason": null')
BAD_ENDINGS = frozenset({"abort", "error"})
LONGEST_WAIT_SECONDS = 120.0
RETRY_SECONDS = 1.0
"""After a refusal that does not say when to come back."""
MOST_ATTEMPTS = 5


@dataclass(eq=False)
class Visit:
    """One client's way. Times are monotonic seconds; TTFT is that of the last attempt."""

    request: Request
    arrived_at: float = 0.0
    sent_at: float = 0.0
    first_at: float | None = None
    ended_at: float | None = None
    status: int | None = None
    tokens_seen: int = 0
    tokens: int = 0
    is_complete: bool = False
    attempts: int = 0
    reason: str = ""
    """The gate's, of the last refusal."""
    error: str = ""
    """What broke the connection."""
    refusals_seconds: list[float] = field(default_factory=list)
    retry_after: list[str] = field(default_factory=list)

    @property
    def ttft_seconds(self) -> float | None:
        """Seconds until the first token; None if there was none."""
        return None if self.first_at is None else self.first_at - self.sent_at

    def is_good(self, slo_seconds: float) -> bool:
        """Tell whether it was served in time and to the end."""
        ttft = self.ttft_seconds
        return self.is_complete and ttft is not None and ttft <= slo_seconds


def session(*, keep_alive: bool = True) -> aiohttp.ClientSession:
    """Open connections without a limit; without `keep_alive` one for each request."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=not keep_alive),
        timeout=aiohttp.ClientTimeout(total=LONGEST_WAIT_SECONDS),
    )


async def visit(
    opened: aiohttp.ClientSession, url: str, one: Visit, dice: random.Random, *, returns: bool
) -> None:
    """Ask until served, or refused for good."""
    body = _body(one.request, dice)
    one.arrived_at = time.monotonic()
    while True:
        one.attempts += 1
        wait = await _attempt(opened, url, one, body)
        if wait is None or not returns or one.attempts == MOST_ATTEMPTS:
            return
        await asyncio.sleep(wait)


async def _attempt(
    opened: aiohttp.ClientSession, url: str, one: Visit, body: bytes
) -> float | None:
    """Ask once; return the seconds after which to come back when refused."""
    one.sent_at = time.monotonic()
    headers = {"Content-Type": "application/json"}
    if one.request.priority is not None:
        headers["x-tidegate-priority"] = str(one.request.priority)
    try:
        async with opened.post(f"{url}/v1/completions", data=body, headers=headers) as answer:
            one.status = answer.status
            if answer.status == 200:
                await _read(answer, one)
                return None
            await answer.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        one.error = type(error).__name__
        return None
    one.refusals_seconds.append(time.monotonic() - one.sent_at)
    one.reason = answer.headers.get("x-tidegate-reason", "")
    told = answer.headers.get("Retry-After", "")
    one.retry_after.append(told)
    return float(told) if told.isdigit() else RETRY_SECONDS


async def _read(answer: aiohttp.ClientResponse, one: Visit) -> None:
    """Read a stream to its end."""
    is_well = False
    async for line in answer.content:
        if not line.startswith(DATA):
            continue
        if one.first_at is None:
            one.first_at = time.monotonic()
        if line.startswith(DONE, len(DATA)):
            one.ended_at = time.monotonic()
            one.is_complete = is_well
            return
        one.tokens_seen += 1
        if not any(mark in line for mark in GOING_ON):
            is_well = _is_well(json.loads(line[len(DATA) :]), one) and (is_well or not one.tokens)


def _is_well(event: dict[str, object], one: Visit) -> bool:
    """Take the event that ends an answer, or the one with its usage."""
    usage = event.get("usage")
    if isinstance(usage, dict):
        one.tokens = usage["total_tokens"]
    choices = event.get("choices")
    if "error" in event or not isinstance(choices, list):
        return False
    return all(choice["finish_reason"] not in BAD_ENDINGS for choice in choices)


def _body(request: Request, dice: random.Random) -> bytes:
    prompt = " " + " ".join(dice.choices(WORDS, k=request.prompt_tokens))
    return json.dumps(
        {
            "model": MODEL,
            "prompt": prompt,
            "max_tokens": request.claimed_tokens,
            "min_tokens": max(0, request.output_tokens - EXTRA_TOKENS),
            "stop_token_ids": STOP_TOKEN_IDS,
            "ignore_eos": True,
            "temperature": 1.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()


async def offer(
    url: str,
    requests: Sequence[Request],
    seed: int,
    *,
    slo_seconds: float,
    patience_seconds: float,
    returns: bool = False,
    keep_alive: bool = True,
) -> list[Visit]:
    """Send each request at its time, whatever became of the others.

    When the last is sent, those who can still be served in time are waited for, at most
    `patience_seconds`; the others leave.
    """
    visits = [Visit(request) for request in requests]
    dice = random.Random(seed)
    begun = time.monotonic()
    async with session(keep_alive=keep_alive) as opened:
        tasks = {}
        for one in visits:
            await asyncio.sleep(begun + one.request.at_seconds - time.monotonic())
            task = asyncio.create_task(visit(opened, url, one, dice, returns=returns))
            tasks[task] = one
        deadline = time.monotonic() + patience_seconds
        while time.monotonic() < deadline and any(
            not task.done() and _has_hope(one, slo_seconds) for task, one in tasks.items()
        ):
            await asyncio.sleep(0.05)
        await leave(tasks)
    return visits


async def leave(tasks: "Sequence[asyncio.Task[None]] | dict[asyncio.Task[None], Visit]") -> None:
    """Hang up, wherever the clients are."""
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):  # CancelledError is none
            raise ended


def _has_hope(one: Visit, slo_seconds: float) -> bool:
    """Tell whether a client may still be served in time."""
    ttft = one.ttft_seconds
    if ttft is None:
        ttft = time.monotonic() - one.sent_at
    return ttft <= slo_seconds
