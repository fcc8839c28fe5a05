"""`--speculative-config`: which draft the engine runs, by its own rules."""

from collections.abc import Mapping
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.core.budget.engine_config import Speculative
from tidegate.core.budget.shape import ModelShape
from tidegate.errors import Refused
from tidegate.facts import models
from tidegate.facts.engines import Engine

_FIELD = "speculative-config"
_MOST_TOKENS = 1024
_WITHOUT_DRAFT = ("ngram", "ngram_gpu", "suffix", "mtp", "extract_hidden_states", "custom_class")
_ASYNC_METHODS = ("ngram_gpu", "draft_model", "dspark", "dflash", "eagle", "eagle3", "mtp")
# Flags that set one key of --speculative-config, for short.
_SHORT = {"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"}


def read(
    arguments: Mapping[str, Any], engine: Engine, model: ModelShape
) -> tuple[Speculative | None, bool]:
    """Return what the flags say of speculation, and whether scheduling may stay asynchronous.

    The draft's config.json comes with the object (`"model": {"config": {...}}`, our own form) or
    from the catalogue.

    Raises:
        Refused: SPECULATION_INVALID names the key.
    """
    config = dict(arguments.get(_FIELD) or {})
    config |= {key: arguments[flag] for flag, key in _SHORT.items() if flag in arguments}
    if not config:
        return None, True
    name, draft = _draft(config.get("model"))
    method = _method(config.get("method"), name, engine)
    tokens = _tokens(config.get("num_speculative_tokens"), method, model)
    is_async = method in _ASYNC_METHODS and not config.get("disable_padded_drafter_batch", False)
    if method in _WITHOUT_DRAFT:
        return Speculative(method, tokens), is_async
    return Speculative(method, tokens, _config_of(name, draft, method)), is_async


def _method(asked: Any, name: str | None, engine: Engine) -> str:
    """Return the method; where it is absent, what the engine infers from the draft's name."""
    if asked is None:
        lowered = (name or "").lower()
        if lowered in ("ngram", "[ngram]"):
            return "ngram"
        if "eagle-" in lowered:
            return "eagle"
        return "eagle3" if "eagle3" in lowered else "draft_model"
    if not isinstance(asked, str) or asked not in engine.speculative_methods:
        listed = ", ".join(engine.speculative_methods)
        _refuse("method", f"{asked!r:.60} is none of {listed}")
    return "mtp" if asked.endswith("_mtp") else asked


def _tokens(asked: Any, method: str, model: ModelShape) -> int:
    if asked is None and method == "mtp" and model.draft_layers:
        return model.draft_layers  # the engine takes as many as the checkpoint has layers for
    if isinstance(asked, bool) or not isinstance(asked, int) or not 1 <= asked <= _MOST_TOKENS:
        given = "is missing" if asked is None else f"is {asked!r:.40}"
        _refuse("num_speculative_tokens", f"{given}; give a whole number from 1 to {_MOST_TOKENS}")
    return asked


def _draft(given: Any) -> tuple[str | None, Mapping[str, Any] | None]:
    """Return the draft's id and its config.json, as far as they are given."""
    if given is None or isinstance(given, str):
        return given, None
    if not isinstance(given, Mapping) or not set(given) <= {"id", "config"}:
        _refuse("model", 'must be an id, or {"id": ..., "config": {...}}')
    name, config = given.get("id"), given.get("config")
    if name is not None and not isinstance(name, str):
        _refuse("model.id", "must be a string")
    if config is not None and not isinstance(config, Mapping):
        _refuse("model.config", "must be an object: the draft's config.json")
    return name, config


def _config_of(name: str | None, config: Mapping[str, Any] | None, method: str) -> Any:
    if config is not None:
        return config
    known = models.find(name) if name else None
    if known is None:
        _refuse(
            "model",
            f"method {method} needs the draft's config.json, and the catalogue does not know "
            f'{name or "any"}; give it as {{"model": {{"config": {{...}}}}}}',
        )
    return known.config


def _refuse(key: str, problem: str) -> NoReturn:
    raise Refused(Reason.SPECULATION_INVALID, f"{_FIELD}.{key}: {problem}", f"{_FIELD}.{key}")
