"""What there is to be asked for: the model's names, and which revisions answer to each.

While a rollout changes the model's name or length its revisions differ in them, and an engine
refuses what it does not know or cannot take.
"""

from collections.abc import Collection, Mapping

from tidegate.api.gate_config import GateConfig, Serves
from tidegate.gate.exchange import Ask
from tidegate.gate.values import value_class

_NOBODY: tuple[str, ...] = ()


@value_class
class Model:
    """A name that clients may ask for; `max_model_len` is that of the revision with the longest.

    `root` is the first name of the revision that answers to it.
    """

    name: str
    root: str
    max_model_len: int


def serves(config: GateConfig, revision: str) -> Serves:
    """Return what a revision answers to; where it is not told, what the whole document says."""
    for each in config.revisions:
        if each.name == revision and each.serves is not None:
            return each.serves
    # Not validated again: a document may name more than one revision has.
    return Serves.model_construct(models=config.models, max_model_len=config.max_model_len)


def models(config: GateConfig) -> list[Model]:
    """Return what clients may ask for, in order."""
    heaviest_first = sorted(config.revisions, key=lambda each: -each.weight)
    weighted = [serves(config, each.name) for each in heaviest_first if each.weight]
    return [
        _model(config, name, [one for one in weighted if name in one.models])
        for name in config.models
    ]


def _model(config: GateConfig, name: str, by: list[Serves]) -> Model:
    if not by:
        return Model(name, config.models[0], config.max_model_len)
    return Model(name, by[0].models[0], max(one.max_model_len for one in by))


class Offers:
    """Tells which revisions can answer a request: those with weight that know and can take it."""

    def __init__(self, config: GateConfig | None = None) -> None:
        self._all = _Able({})
        self._by_model: dict[str, _Able] = {}
        if config is None:
            return
        known = {each.name: serves(config, each.name) for each in config.revisions if each.weight}
        self._all = _Able({name: one.max_model_len for name, one in known.items()})
        self._by_model = {
            model: _Able(
                {name: one.max_model_len for name, one in known.items() if model in one.models}
            )
            for model in config.models
        }

    def able(self, ask: Ask) -> Collection[str]:
        """Return the revisions that know its model and take its tokens.

        What is too long for all goes to the longest: a prompt's length may be an estimate, and
        the engine knows better.
        """
        known = self._by_model.get(ask.model) if ask.names_model else self._all
        if known is None:
            return _NOBODY
        needed = _longest(ask) + ask.least_output
        return known.all if needed <= known.shortest else known.taking(needed)


def _longest(ask: Ask) -> int:
    """Return the tokens of the longest prompt: of several each is a sequence of its own."""
    if ask.prompts == 1 or ask.fewest_tokens is None:
        return ask.prompt_tokens
    return ask.fewest_tokens


class _Able:
    """Revisions that know a model, and the tokens that each takes."""

    def __init__(self, lengths: Mapping[str, int]) -> None:
        self._lengths = lengths
        self.all = tuple(lengths)
        self.shortest = min(lengths.values(), default=0)

    def taking(self, tokens: int) -> Collection[str]:
        """Return those that take so many; the longest where none does."""
        least = min(tokens, max(self._lengths.values(), default=0))
        return [name for name, length in self._lengths.items() if length >= least]
