"""`--speculative-config`: which draft the engine runs, by its own rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.budget import draft as drafts
from tidegate.core.budget.engine_config import Speculative
from tidegate.core.command_line import speculation_keys as keys
from tidegate.core.command_line.speculation_keys import refuse
from tidegate.facts import models
from tidegate.facts.engines import Engine

_MOST_TOKENS = 1024
_AS_NAMED = (*keys.WITHOUT_DRAFT, "eagle", "eagle3", "dflash", "dspark")
_SUFFIX_TOKENS = 24
_TOKENS_MAY_BE_LEFT_OPEN = ("mtp", "suffix", "draft_model")  # the last turns out to be mtp
# What the engine takes a draft for by its name, in this order.
_BY_NAME = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
_ASYNC_METHODS = (
    *("ngram_gpu", "draft_model", "dspark", "dflash", "eagle", "eagle3", "mtp"),
    "extract_hidden_states",
)


@dataclass(frozen=True)
class Asked:
    """What flags say of speculation; `why_synchronous` says what keeps scheduling so, if any."""

    speculative: Speculative | None = None
    why_synchronous: str | None = None


def read(arguments: Mapping[str, Any], engine: Engine, longest: int) -> Asked:
    """Return what the flags say of speculation.

    The draft's config.json comes with the object (`"model": {"config": {...}}`, our own form) or
    from the catalogue.

    Args:
        arguments: The engine's flags.
        engine: The version whose flags they are.
        longest: The --max-model-len of the model that the draft drafts for.

    Raises:
        Refused: SPECULATION_INVALID names the key.
    """
    config = keys.read(arguments, engine)
    if not config:
        return Asked()
    name, given = _draft(config.get("model"))
    method = _method(config.get("method"), name, engine)
    if method not in _TOKENS_MAY_BE_LEFT_OPEN:
        _tokens(config, method, None)
    own = None
    if method not in keys.WITHOUT_DRAFT and (method != "mtp" or config.get("model") is not None):
        own = _config_of(name, given, method)
        method = drafts.method_of(method, own)
    keys.check(config, method, arguments, longest)
    speculative = Speculative(
        method,
        _tokens(config, method, None if own is None else drafts.predicted_by(own)),
        own,
        kv_cache_dtype=config.get("kv_cache_dtype"),
        quantization=config.get("quantization"),
        attention_backend=None if method == "draft_model" else config.get("attention_backend"),
    )
    is_padded = not config.get("disable_padded_drafter_batch", False)
    return Asked(speculative, why_synchronous(method, is_padded))


def why_synchronous(method: str, is_padded: bool = True) -> str | None:
    """Say what of speculation asynchronous scheduling does not go with; None if it does."""
    if method not in _ASYNC_METHODS:
        return f"speculation by {method}"
    return None if is_padded else "disable_padded_drafter_batch in speculative-config"


def by_name(asked: str, name: str | None) -> str:
    """Return the method that the engine takes for a draft: its name may go before what is asked."""
    if asked in _AS_NAMED:
        return asked
    lowered = (name or "").lower()
    found = (method for mark, method in _BY_NAME.items() if mark in lowered)
    return next(found, "mtp" if asked.endswith("_mtp") else asked)


def _method(asked: Any, name: str | None, engine: Engine) -> str:
    """Return the method that is given, or that the engine infers from the draft's name."""
    if asked is None and name is not None and _is_class(name):
        return "custom_class"
    if asked is None:
        asked = "ngram" if name in ("ngram", "[ngram]") else "draft_model"
    elif not isinstance(asked, str) or asked not in engine.speculative_methods:
        listed = ", ".join(engine.speculative_methods)
        refuse("method", f"{asked!r:.60} is none of {listed}")
    return by_name(str(asked), name)


def _is_class(name: str) -> bool:
    """Tell whether the engine takes a draft's name for the path of a class in Python."""
    parts = name.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


def _tokens(config: Mapping[str, Any], method: str, predicted: int | None) -> int:
    asked = config.get("num_speculative_tokens")
    if asked is None and method == "mtp" and predicted:
        return predicted  # the engine takes as many as the draft has layers for
    if asked is None and method == "suffix":
        asked = config.get("suffix_decoding_max_tree_depth", _SUFFIX_TOKENS)
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= _MOST_TOKENS:
        given = "is missing" if asked is None else f"is {asked!r:.40}"
        refuse("num_speculative_tokens", f"{given}; give a whole number from 1 to {_MOST_TOKENS}")
    return asked


def _draft(given: Any) -> tuple[str | None, Mapping[str, Any] | None]:
    """Return the draft's id and its config.json, as far as they are given."""
    if given is None or isinstance(given, str):
        return given, None
    if not isinstance(given, Mapping) or not set(given) <= {"id", "config"}:
        refuse("model", 'must be an id, or {"id": ..., "config": {...}}')
    name, config = given.get("id"), given.get("config")
    if name is not None and not isinstance(name, str):
        refuse("model.id", "must be a string")
    if config is not None and not isinstance(config, Mapping):
        refuse("model.config", "must be an object: the draft's config.json")
    return name, config


def _config_of(
    name: str | None, config: Mapping[str, Any] | None, method: str
) -> Mapping[str, Any]:
    if config is not None:
        return config
    known = models.find(name) if name else None
    if known is None and method == "mtp":
        refuse(
            "model",
            f"the catalogue does not know {name!r:.100}; leave it out where the draft is the "
            'model\'s own, or give its config.json as {"model": {"config": {...}}}',
        )
    if known is None:
        refuse(
            "model",
            f"method {method} needs the draft's config.json, and the catalogue does not know "
            f'{name or "any"}; give it as {{"model": {{"config": {{...}}}}}}',
        )
    return known.config
