"""The nearest change that works: values of one field are tried, nearest first, until one does.

Nothing is suggested that was not planned anew as a whole: a change that mends one fault and brings
another is none.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tidegate.core.budget import parallelism
from tidegate.core.budget.shape import ModelShape
from tidegate.core.checks.verdict import Change, Value

KV_DTYPES = ("fp8", "int8")
"""Types that lose next to nothing on most tasks, by how well they are served."""
Found = TypeVar("Found")


def change(
    path: str,
    values: Iterable[Value],
    attempt: Callable[[str, Value], Found | None],
    works: Callable[[Found], str | None],
) -> Iterator[Change]:
    """Yield the first value that works, if any does.

    Args:
        path: The field.
        values: What to try, the nearest first.
        attempt: Plans with the value; None where there is no plan.
        works: Returns what the change brings; None where it does not help.
    """
    for value in values:
        found = attempt(path, value)
        effect = works(found) if found is not None else None
        if effect is not None:
            yield Change(path, value, effect)
            return


def largest(below: int, fits: Callable[[int], bool], least: int = 1) -> int | None:
    """Return the largest number from `least` to `below` - 1 that fits, None if `least` does not.

    It is found by halving: `fits` is expected to fail from some number on.
    """
    if below <= least or not fits(least):
        return None
    known, fails = least, below
    while fails - known > 1:
        middle = (known + fails) // 2
        if fits(middle):
            known = middle
        else:
            fails = middle
    return known


def other_kv_dtypes(now: str) -> tuple[str, ...]:
    """Return KV types that are smaller than 16 bits, other than the one in use."""
    return tuple(dtype for dtype in KV_DTYPES if not now.startswith(dtype))


def wider(model: ModelShape, now: int) -> tuple[int, ...]:
    """Return larger tensor parallel sizes that divide the model, smallest first."""
    return tuple(size for size in parallelism.choices(model) if size > now)


def narrower(model: ModelShape, now: int) -> tuple[int, ...]:
    """Return smaller tensor parallel sizes that divide the model, largest first."""
    return tuple(size for size in reversed(parallelism.choices(model)) if size < now)
