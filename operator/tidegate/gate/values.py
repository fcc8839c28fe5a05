"""Values that are made for each request: frozen for mypy, and not slowed down for it at run time.

A frozen dataclass sets each field by a call of `object.__setattr__`. A request makes some twenty
values with a hundred fields, and that was a tenth of what the gate's own code costs.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import dataclass_transform

    Kind = TypeVar("Kind")

    @dataclass_transform(frozen_default=True)
    def value_class(cls: type[Kind], /) -> type[Kind]:
        """Make a dataclass of slots, equal and hashed by its fields, that nobody changes."""

else:
    value_class = dataclass(slots=True, unsafe_hash=True)
