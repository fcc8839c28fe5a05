"""The engine's config file (`vllm serve --config FILE`), as the words that it stands for."""

import json
from typing import Any

import yaml

from tidegate.errors import Invalid, Problem
from tidegate.facts.engines import Engine

_FIELD = "--serve: --config"


def words(text: str, engine: Engine) -> list[str]:
    """Return the words that the engine makes of its config file.

    A key that is false becomes `--no-key` where there is such a flag, and is left out where there
    is none, as the engine does.

    Raises:
        Invalid: It is no YAML, or no mapping of flag names.
    """
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Invalid([Problem(_FIELD, f"the file is no YAML: {reason}")]) from error
    if config is None:
        return []
    if not isinstance(config, dict):
        raise Invalid([Problem(_FIELD, "the file must be a mapping of flag names to values")])
    written: list[str] = []
    for key, value in config.items():
        written += _words_of(str(key), value, engine)
    return written


def _words_of(key: str, value: Any, engine: Engine) -> list[str]:
    if isinstance(value, bool):
        negated = f"--no-{key.replace('_', '-')}"
        if value:
            return [f"--{key}"]
        return [negated] if negated in engine.spellings else []
    if isinstance(value, list):
        return [f"--{key}", *map(str, value)] if value else []
    if isinstance(value, dict):
        return [f"--{key}", json.dumps(value, default=str)]
    return [f"--{key}", str(value)]
