"""The highest of what was told of late: what counts of a load that comes and goes."""

Highest = tuple[tuple[float, float], ...]
"""Times and values, the highest and oldest first; what a later one has reached is not in it."""


def with_one(values: Highest, value: float | None, now: float, seconds: float) -> Highest:
    """Return the values with one more, without those that are older than some seconds.

    Args:
        values: As they were.
        value: What is told now; None: nothing.
        now: Seconds since 1970.
        seconds: How long a value counts.
    """
    lasting = tuple(each for each in values if now - each[0] <= seconds)
    if value is None:
        return lasting
    return (*(each for each in lasting if each[1] > value), (now, value))


def highest(values: Highest) -> float | None:
    """Return the highest; None where there is none."""
    return values[0][1] if values else None


def newest(values: Highest) -> float | None:
    """Return what was told last; None where there is nothing."""
    return values[-1][1] if values else None
