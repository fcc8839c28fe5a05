"""Constants of the memory budget, each with its band and where it comes from.

`data/budget_terms.json` is a list of
`{"name", "value", "low", "high", "unit", "source", "engineVersion"}`. The unit is what `value`,
`low` and `high` are counted in (`bytes`, `bytes/token`, `share` ...); `engineVersion` is the vLLM
version it was observed with, or null where it does not depend on one.
"""

from dataclasses import dataclass
from functools import cache

from tidegate.facts import package_data


@dataclass(frozen=True)
class Term:
    """One constant: the true value is expected between `low` and `high`, both in `unit`."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    source: str
    engine_version: str | None

    def __post_init__(self) -> None:
        """Refuse a band that does not hold its own value, and a constant of unknown origin."""
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.name}: {self.value} is not in {self.low} to {self.high}")
        if not self.source:
            raise ValueError(f"{self.name}: a constant needs its source")


def term(name: str) -> Term:
    """Return the constant of that name; a name that the data lacks is a bug (KeyError)."""
    return _terms()[name]


def term_names() -> tuple[str, ...]:
    """Return the name of every constant, in the order of the file."""
    return tuple(_terms())


@cache
def _terms() -> dict[str, Term]:
    terms: dict[str, Term] = {}
    for row in package_data.load("budget_terms.json"):
        found = Term(
            row["name"],
            row["value"],
            row["low"],
            row["high"],
            row["unit"],
            row["source"],
            row["engineVersion"],
        )
        if found.name in terms:
            raise ValueError(f"{found.name}: stands twice in the data")
        terms[found.name] = found
    return terms
