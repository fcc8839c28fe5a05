"""Answers of Prometheus as figures, for one deployment: whatever a test does not change is good."""

from tidegate.core.overload.rows import Row

NOW = 1_800_000_000.0
SCRAPE_SECONDS = 15.0
PLACE = ("default", "chat")


def figures(*, pool="", pod="", engine="", place=PLACE, **stats):
    """Return a row for each figure; None leaves one out."""
    return tuple(
        Row(place, stat, float(value), pool, pod, engine)
        for stat, value in stats.items()
        if value is not None
    )


def kv(value, pod="p1", pool="unified", engine="0", at=NOW - 5, copies=1, place=PLACE):
    return figures(
        pool=pool, pod=pod, engine=engine, place=place, value=value, at=at, copies=copies
    )


def seen(usage, pod="p1", pool="unified", at=NOW - 5):
    """Return what gates saw of a pod's KV cache."""
    return figures(pool=pool, pod=pod, seen=usage, seen_at=at)


def waiting_tokens(tokens, pod="p1", pool="unified", speed=1000.0, at=NOW - 5, copies=1):
    return figures(pool=pool, pod=pod, tokens=tokens, speed=speed, at=at, copies=copies)


def queued_tokens(tokens=0, pool="unified", at=NOW - 5):
    return figures(pool=pool, queued=tokens, queued_at=at)
