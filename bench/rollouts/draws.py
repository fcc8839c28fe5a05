"""Random counts, as many as thousands of rollouts need: binomial, Poisson and by bucket."""

import math
from collections.abc import Sequence
from random import Random

_FEW = 12.0
_NEVER = 1e-7


def poisson(random: Random, mean: float) -> int:
    """Return a Poisson count; from a dozen on by the normal curve, which is close enough."""
    if mean <= 0:
        return 0
    if mean > _FEW:
        return max(0, round(random.gauss(mean, math.sqrt(mean))))
    floor, count, product = math.exp(-mean), 0, random.random()
    while product > floor:
        count += 1
        product *= random.random()
    return count


def binomial(random: Random, number: int, share: float) -> int:
    """Return how many of a number happen; where many do and do not, by the normal curve."""
    if number <= 0 or share <= 0:
        return 0
    if share >= 1:
        return number
    if share > 0.5:
        return number - binomial(random, number, 1 - share)
    mean = number * share
    if mean > _FEW:
        drawn = round(random.gauss(mean, math.sqrt(mean * (1 - share))))
        return min(number, max(0, drawn))
    count, step, misses = 0, -1, math.log1p(-share)
    while True:
        step += 1 + int(math.log(1.0 - random.random()) / misses)
        if step >= number:
            return count
        count += 1


def by_bucket(random: Random, number: int, upper: Sequence[float]) -> list[int]:
    """Return how many of a number fall into each bucket.

    Args:
        random: Where chance comes from.
        number: How many there are.
        upper: For each bucket but the last the share that is not above it, rising.
    """
    counts, left, before = [0] * (len(upper) + 1), number, 0.0
    for index, share in enumerate(upper):
        if left == 0:
            return counts
        part = share - before
        if part > _NEVER:
            counts[index] = binomial(random, left, part / (1 - before))
            left -= counts[index]
        before = share
    counts[-1] = left
    return counts
