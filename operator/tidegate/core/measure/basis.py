"""Which measurement each slice of a plan rests on.

A slice keeps what it was made with for as long as its Deployment is there, so its rendered template
stays as it is whatever is learnt meanwhile: a measurement restarts nothing. A slice that is yet to
be made takes what is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core import names
from tidegate.core.measure.measurement import Measurement
from tidegate.core.measure.store import Store

SliceKey = tuple[str, str, str]
"""Pool, revision and node class, as the labels have them."""


@dataclass(frozen=True)
class Basis:
    """What a plan may take as measured: `kept` of the slices that are there, `store` of others."""

    kept: Mapping[SliceKey, Measurement | None] = field(default_factory=dict)
    store: Store = field(default_factory=Store)

    def keeps(self, pool: str, revision: str, node_class: str) -> bool:
        """Say whether a slice is there, and so has its numbers already."""
        return (pool, revision, names.label_value(node_class)) in self.kept

    def of(
        self, pool: str, revision: str, node_class: str, configuration: str, image: str
    ) -> Measurement | None:
        """Return what a slice's plan rests on; None for estimates."""
        key = (pool, revision, names.label_value(node_class))
        if key in self.kept:
            return self.kept[key]
        return self.store.find(configuration, image)
