"""What clients ask for, and when: Poisson arrivals, lognormal lengths, all from one seed."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SPREAD = 0.8
"""Sigma of the lognormal lengths: between chats of one application and those of ShareGPT."""
MAX_MODEL_LEN = 4096
LONGEST_PROMPT = 1500
"""Longer ones would not be within the SLO even alone, at the speed of these engines."""
LONGEST_OUTPUT = 1000
CLAIMED_TOKENS = 1024
"""`max_tokens` of an ordinary client, who doesn't know how long its answer will be."""
BURST_PERIOD_SECONDS = 8.0
BURST_SECONDS = 2.0
BURST_FACTOR = 3.0


@dataclass(frozen=True)
class Shape:
    """Lengths of a kind of request; a liar claims all that the model's length leaves."""

    name: str
    prompt_tokens: float
    output_tokens: float
    lies: bool = False


@dataclass(frozen=True)
class Phase:
    """A part of a run, from `begin` to `end` in seconds; `factor` times the load arrives."""

    shape: Shape
    begin: float
    end: float
    factor: float = 1.0


@dataclass(frozen=True)
class Mix:
    """What is asked of the engine, whose KV cache is `kv_times` the usual one."""

    name: str
    shapes: tuple[Shape, ...]
    bursts: bool = False
    kv_times: int = 1
    returns: bool = False
    """Whether clients who are refused come back when Retry-After says."""

    def phases(self, seconds: float) -> list[Phase]:
        """Return the parts of a run: the shapes one after the other, or bursts and rests."""
        if not self.bursts:
            edges = [seconds * part / len(self.shapes) for part in range(len(self.shapes) + 1)]
            return [
                Phase(shape, *between)
                for shape, between in zip(self.shapes, pairwise(edges), strict=True)
            ]
        share = BURST_SECONDS / BURST_PERIOD_SECONDS
        rest = (1 - share * BURST_FACTOR) / (1 - share)
        phases, begin = [], 0.0
        while begin < seconds:
            middle, end = begin + BURST_SECONDS, begin + BURST_PERIOD_SECONDS
            phases.append(Phase(self.shapes[0], begin, min(middle, seconds), BURST_FACTOR))
            phases.append(Phase(self.shapes[0], min(middle, seconds), min(end, seconds), rest))
            begin = end
        return phases


A = Shape("A", 300, 120)
B = Shape("B", 900, 60)
LIAR = Shape("liar", 300, 50, lies=True)
MIXES = {
    mix.name: mix
    for mix in (
        Mix("A", (A,)),
        Mix("B", (B,)),
        Mix("change", (A, B)),
        Mix("bursts", (A,), bursts=True),
        Mix("liars", (LIAR,)),
        Mix("large-kv", (A,), kv_times=8),
        Mix("returning", (A,), returns=True),
    )
}
TOLD = {
    "A": "prompts of 300 tokens, answers of 120",
    "B": "prompts of 900 tokens, answers of 60",
    "change": "A, from the middle of the run on B",
    "bursts": f"A; in {BURST_SECONDS:.0f} of {BURST_PERIOD_SECONDS:.0f} seconds"
    f" {BURST_FACTOR:.0f} times the mean",
    "liars": "prompts of 300 tokens; all that the model allows is asked for, 50 are used",
    "large-kv": "A, with 8 times the KV cache",
    "returning": "A; who is refused comes back when Retry-After says",
}


@dataclass(frozen=True)
class Request:
    """One request: when it is sent, its lengths in tokens, and its class where it names one."""

    at_seconds: float
    prompt_tokens: int
    output_tokens: int
    claimed_tokens: int
    priority: int | None = None


def arrivals(
    mix: Mix, load: float, capacity: Mapping[str, float], seconds: float, seed: int
) -> Sequence[Request]:
    """Draw the requests of a run.

    Args:
        mix: what is asked.
        load: times the capacity.
        capacity: requests per second that the engine can bear, by the shape's name.
        seconds: how long clients arrive.
        seed: the same one gives the same requests.
    """
    dice = random.Random(f"{mix.name} {load} {seed}")
    requests = []
    for phase in mix.phases(seconds):
        rate = load * phase.factor * capacity[phase.shape.name]
        at = phase.begin
        while rate > 0 and (at := at + dice.expovariate(rate)) < phase.end:
            requests.append(draw(phase.shape, dice, at))
    return requests


def draw(shape: Shape, dice: random.Random, at_seconds: float = 0.0) -> Request:
    """Draw the lengths of one request."""
    prompt = _length(shape.prompt_tokens, LONGEST_PROMPT, dice)
    output = _length(shape.output_tokens, LONGEST_OUTPUT, dice)
    claimed = MAX_MODEL_LEN - prompt - 1 if shape.lies else CLAIMED_TOKENS
    return Request(at_seconds, prompt, output, claimed)


def _length(mean: float, longest: int, dice: random.Random) -> int:
    drawn = dice.lognormvariate(math.log(mean) - SPREAD**2 / 2, SPREAD)
    return max(4, min(longest, round(drawn)))
