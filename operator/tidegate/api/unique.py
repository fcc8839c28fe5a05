"""Lists without repetition, as `x-kubernetes-list-type` `set` and `map` promise."""

from collections.abc import Sequence
from typing import Any

from pydantic import AfterValidator


def unique(key: str | None = None) -> AfterValidator:
    """Refuse a list that holds an entry twice: by the value of `key`, or the whole entry."""

    def check(items: Sequence[Any]) -> Sequence[Any]:
        seen: dict[Any, int] = {}
        for index, item in enumerate(items):
            value = getattr(item, key) if key else item
            if value in seen:
                what = f"{key} {value}" if key else f"{value}"
                raise ValueError(f"entries {seen[value]} and {index} are both {what}; keep one")
            seen[value] = index
        return items

    return AfterValidator(check)
