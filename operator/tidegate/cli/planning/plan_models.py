"""`tidegate plan --models`: the models that can be sized by their id."""

from dataclasses import dataclass
from typing import Any

from tidegate.core.budget import shape, weights
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused
from tidegate.facts import engines, models


@dataclass(frozen=True)
class KnownModel:
    """A model of the catalogue; `why_not` says why it is not sized, None for one that is.

    `max_model_len` is None too where the catalogue's copy lacks the key. `pool_only` says that its
    KV is sized for given bytes, and its weights are not.
    """

    model_id: str
    layers: int | None
    standing: str
    max_model_len: int | None
    why_not: str | None
    pool_only: bool = False

    def wire(self) -> dict[str, Any]:
        """Return it as documented in docs/reference/cli.md."""
        return {
            "id": self.model_id,
            "layers": self.layers,
            "maxModelLen": self.max_model_len,
            "standing": self.standing,
            "sized": self.why_not is None,
            "poolOnly": self.pool_only,
            "whyNot": self.why_not,
        }


def show(output: str) -> None:
    """Print the catalogue as a table, JSON or YAML."""
    found = known()
    if output != "table":
        from tidegate.cli.inputs import documents

        documents.print_documents([one.wire() for one in found], output)
        return
    from tidegate.cli.planning import tables

    columns = [
        ("model", False),
        ("layers", True),
        ("longest", True),
        ("config.json", False),
        ("sized", False),
    ]
    tables.print_table("", columns, [_cells(one) for one in found])


def _cells(one: KnownModel) -> list[str]:
    return [
        one.model_id,
        "" if one.layers is None else str(one.layers),
        "" if one.max_model_len is None else f"{one.max_model_len:,}",
        one.standing,
        _sized(one),
    ]


def _sized(one: KnownModel) -> str:
    if one.why_not is None:
        return "yes"
    return f"{'pool only' if one.pool_only else 'no'}: {one.why_not}"


def known() -> list[KnownModel]:
    """Return every model of the catalogue, by id."""
    return [_known(model_id) for model_id in models.known_ids()]


def _known(model_id: str) -> KnownModel:
    found = models.find(model_id)
    assert found is not None  # the id is from the catalogue
    try:
        read = shape.read(found.config)
    except Refused as refusal:
        return KnownModel(model_id, None, found.standing, None, refusal.message)
    longest = read.longest_model_len if read.length_is_known else None
    why_not = _why_no_weights(read)
    return KnownModel(
        model_id, read.layer_count, found.standing, longest, why_not, why_not is not None
    )


def _why_no_weights(model: ModelShape) -> str | None:
    engine = EngineConfig(engines.versions()[-1], model.max_model_len, 1, 1)
    try:
        weights.of(model, engine, model.dtype)
    except Refused as refusal:
        return refusal.message
    return None
