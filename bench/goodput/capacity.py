"""What an engine completes when so many clients ask it one after another."""

import asyncio
import random

from bench.goodput import clients, engines, mixes
from bench.goodput.clients import Visit
from bench.goodput.mixes import Shape


async def completed(
    url: str, shape: Shape, count: int, *, warm_up_seconds: float, seconds: float
) -> float:
    """Return requests per second of `count` clients who ask one time after another.

    Output tokens are counted, and divided by those of a request: few requests end in so short a
    time, and none at first.
    """
    dice = random.Random(count)
    visits: list[Visit] = []

    async def ask_on() -> None:
        while True:
            visits.append(one := Visit(mixes.draw(shape, dice)))
            await clients.visit(opened, url, one, dice, returns=False)

    async with clients.session() as opened:
        tasks = [asyncio.create_task(ask_on()) for _ in range(count)]
        await asyncio.sleep(warm_up_seconds)
        before = sum(one.tokens_seen for one in visits)
        await asyncio.sleep(seconds)
        made = sum(one.tokens_seen for one in visits) - before
        await clients.leave(tasks)
    await engines.until_idle(url)
    return made / seconds / shape.output_tokens
