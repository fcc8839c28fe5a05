"""Groups of layers whose pages lie side by side in a block, whatever their sizes.

Only models whose backends put the layers inside of a block (DeepSeek-V4) are packed. Layers that
take blocks alike form a bucket. A bucket with as many layers of each page size repeats a pattern;
such buckets are split into groups of about as many repeats each (vLLM 0.32 and 0.33).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.budget.kv_spec import KVSpec, are_alike
from tidegate.core.budget.reach import States, Window


@dataclass(frozen=True)
class _Bucket:
    """Places of layers that take blocks alike, by the bytes of their pages."""

    first: KVSpec
    by_page: dict[int, list[int]]
    places: list[int]

    @property
    def repeats(self) -> int:
        """Layers of the most frequent page."""
        return max(map(len, self.by_page.values()))

    @property
    def is_balanced(self) -> bool:
        """Tell whether it has as many layers of each page."""
        return len({len(places) for places in self.by_page.values()}) == 1

    def widest(self, number: int) -> int:
        """Return the bytes of the widest of so many groups that it may be split into."""
        return sum(-(-len(places) // number) * page for page, places in self.by_page.items())


def groups(specs: Sequence[KVSpec]) -> list[list[int]]:
    """Return the places of the layers of each group."""
    buckets = _buckets(specs)
    repeats = _repeats_of_a_group(buckets)

    def is_state(bucket: _Bucket) -> bool:
        reach = bucket.first.reach
        return isinstance(reach, States) or (repeats is None and isinstance(reach, Window))

    def number_of(bucket: _Bucket) -> int:
        if bucket.is_balanced and repeats is not None:
            return -(-bucket.repeats // repeats)
        return 1

    # What a block must hold in any case; states are split so that they do not widen it.
    anchor_bytes = max(
        bucket.widest(len(bucket.places) if is_state(bucket) else number_of(bucket))
        for bucket in buckets
    )
    found = []
    for bucket in buckets:
        number = number_of(bucket)
        if is_state(bucket):
            states_in_block = max(anchor_bytes // bucket.first.page_bytes, 1)
            number = max(number, -(-len(bucket.places) // states_in_block))
        found += _split(bucket, number)
    return found


def _split(bucket: _Bucket, number: int) -> list[list[int]]:
    if number == 1:
        return [bucket.places]
    patterns = list(zip(*bucket.by_page.values(), strict=False))
    return [
        [place for pattern in patterns[start::number] for place in pattern]
        for start in range(number)
    ]


def _buckets(specs: Sequence[KVSpec]) -> list[_Bucket]:
    found: list[list[int]] = []
    for place, spec in enumerate(specs):
        for places in found:
            if are_alike([specs[places[0]], spec]):
                places.append(place)
                break
        else:
            found.append([place])
    return [_bucket(specs, places) for places in found]


def _bucket(specs: Sequence[KVSpec], places: list[int]) -> _Bucket:
    by_page: dict[int, list[int]] = defaultdict(list)
    for place in places:
        by_page[specs[place].page_bytes].append(place)
    return _Bucket(specs[places[0]], dict(by_page), places)


def _repeats_of_a_group(buckets: Sequence[_Bucket]) -> int | None:
    """Return how many repeats a group has, or None where no bucket mixes pages in a pattern."""
    balanced = [bucket for bucket in buckets if bucket.is_balanced]
    least = max((bucket.repeats for bucket in balanced if len(bucket.by_page) > 1), default=0)
    return _least_padded([bucket.repeats for bucket in balanced], least) if least else None


def _least_padded(counts: Sequence[int], at_least: int) -> int:
    """Return the divisor that pads the counts least when they are rounded up to multiples."""
    choices = range(at_least, max(counts) + 1)
    return min(choices, key=lambda size: (sum(-count % size for count in counts), -size))
