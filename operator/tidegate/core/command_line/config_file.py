"""The engine's config file (`vllm serve --config FILE`), as the words that it stands for."""

import json
from dataclasses import dataclass
from typing import Any

import yaml

from tidegate.errors import Invalid, Problem

_FIELD = "--serve: --config"


@dataclass(frozen=True)
class ConfigFile:
    """The words that the engine makes of its config file, and what it silently leaves out."""

    words: tuple[str, ...]
    notes: tuple[str, ...]


def read(text: str) -> ConfigFile:
    """Read the engine's config file.

    A key that is false is dropped by the engine: `vllm serve` looks for its `--no-` form where
    there is none, so the default stays. A note says so.

    Raises:
        Invalid: It is no YAML, or no mapping of flag names.
    """
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Invalid([Problem(_FIELD, f"the file is no YAML: {reason}")]) from error
    if config is not None and not isinstance(config, dict):
        raise Invalid([Problem(_FIELD, "the file must be a mapping of flag names to values")])
    written: list[str] = []
    notes: list[str] = []
    for key, value in (config or {}).items():
        written += _words_of(str(key), value)
        if value is False:
            notes.append(
                f"the engine ignores `{key}: false` in its config file; write `no-{key}: true`"
            )
    return ConfigFile(tuple(written), tuple(notes))


def _words_of(key: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{key}"] if value else []
    if isinstance(value, list):
        return [f"--{key}", *map(str, value)] if value else []
    if isinstance(value, dict):
        return [f"--{key}", json.dumps(value, default=str)]
    return [f"--{key}", str(value)]
