"""Sends one client, then far too many, and prints what became of them.

Usage: python -m bench.overload URL [--engine URL] [--rate N] [--seconds 20]

`URL` is a gate's. `--engine` is the engine behind it: its count of preemptions is shown as well.
It serves the tiny model of the tests; `scripts/demo` runs this at its end.
"""

import argparse
import asyncio
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from bench import figures
from bench.goodput import clients, engines, mixes
from bench.goodput.clients import Visit
from bench.goodput.mixes import Request, Shape

SHAPE = Shape("overload", 300, 120)
LONGEST_PROMPT = 1000
LONGEST_OUTPUT = 400
CLAIMED_TOKENS = 600
QUIET_REQUESTS = 6
TIMES_ALONE = 10.0
"""Of what one client gets alone: more than any engine of eight sequences makes of them together."""
PATIENCE_SECONDS = 60.0
SEED = 1


def main() -> int:
    """Print the table; fail when a client got neither an answer nor an honest refusal."""
    options = _parser().parse_args()
    before = engines.preemptions(options.engine) if options.engine else 0
    begun = time.monotonic()
    quiet = asyncio.run(_one_after_another(options.url))
    alone = QUIET_REQUESTS / (time.monotonic() - begun)
    rate = options.rate or TIMES_ALONE * alone
    told = f"{QUIET_REQUESTS} requests one by one, {alone:.1f} a second; then {rate:.0f} a second"
    print(told, flush=True)
    flood = asyncio.run(_too_many(options.url, rate, options.seconds))
    print(
        f"\n{'':12} {'asked':>6} {'served':>6} {'429':>5} {'other':>5} {'TTFT p50':>9} {'p99':>7}"
    )
    print(_row("one client", quiet))
    print(_row("overload", flood))
    print(_refusals(flood))
    if options.engine:
        print(f"preemptions in the engine: {engines.preemptions(options.engine) - before}")
    return 0 if not any(map(_is_unexplained, [*quiet, *flood])) else 1


async def _one_after_another(url: str) -> Sequence[Visit]:
    dice = random.Random(SEED)
    visits = [Visit(_request(dice)) for _ in range(QUIET_REQUESTS)]
    async with clients.session(keep_alive=False) as opened:
        for one in visits:
            await clients.visit(opened, url, one, dice, returns=False)
    return visits


async def _too_many(url: str, rate: float, seconds: float) -> Sequence[Visit]:
    dice = random.Random(SEED + 1)
    requests, at = [], 0.0
    while (at := at + dice.expovariate(rate)) < seconds:
        requests.append(_request(dice, at))
    return await clients.offer(
        url,
        requests,
        SEED,
        slo_seconds=math.inf,
        patience_seconds=PATIENCE_SECONDS,
        keep_alive=False,  # each connection may meet another gate
    )


def _request(dice: random.Random, at_seconds: float = 0.0) -> Request:
    drawn = mixes.draw(SHAPE, dice, at_seconds)
    return replace(
        drawn,
        prompt_tokens=min(drawn.prompt_tokens, LONGEST_PROMPT),
        output_tokens=min(drawn.output_tokens, LONGEST_OUTPUT),
        claimed_tokens=CLAIMED_TOKENS,
    )


def _row(name: str, visits: Sequence[Visit]) -> str:
    served = [one for one in visits if one.is_complete]
    refused = sum(one.status == 429 for one in visits)
    waits = [one.ttft_seconds for one in served if one.ttft_seconds is not None]
    ttft = [f"{figures.percentile(waits, share):.2f} s" if waits else "-" for share in (0.5, 0.99)]
    other = len(visits) - len(served) - refused
    return (
        f"{name:12} {len(visits):6} {len(served):6} {refused:5} {other:5} {ttft[0]:>9} {ttft[1]:>7}"
    )


def _refusals(visits: Sequence[Visit]) -> str:
    refused = [one for one in visits if one.status == 429]
    if not refused:
        return "nobody was refused"
    told = sorted(int(text) for one in refused for text in one.retry_after if text.isdigit())
    if not told:
        return "refusals without Retry-After"
    taken = [1000 * seconds for one in refused for seconds in one.refusals_seconds]
    p50, p99 = (figures.percentile(taken, share) for share in (0.5, 0.99))
    reasons = Counter(one.reason for one in refused).most_common()
    return (
        f"refusals: after {p50:.0f} ms (p99 {p99:.0f} ms), Retry-After {told[0]} to {told[-1]} s; "
        + ", ".join(f"{reason} {count}" for reason, count in reasons)
    )


def _is_unexplained(one: Visit) -> bool:
    """Tell whether a client was neither served nor told when to come back."""
    is_told = one.status == 429 and all(text.isdigit() for text in one.retry_after)
    return not one.is_complete and not is_told


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Overload a gate, and show what comes of it.")
    add = parser.add_argument
    add("url", help="of the gate, such as http://10.113.0.20")
    add("--engine", help="URL of the engine behind it, to count preemptions (default: not counted)")
    several = f"{TIMES_ALONE:g} times what one client gets alone"
    add("--rate", type=float, help=f"requests per second (default: {several})")
    add("--seconds", type=float, default=20.0, help="how long they come (default %(default)g)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
