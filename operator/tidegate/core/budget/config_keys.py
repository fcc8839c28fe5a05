"""Typed access to the keys of a config.json: a bad value is refused by the name of its key."""

from collections.abc import Mapping
from typing import Any, NoReturn

from tidegate.api.reasons import Reason
from tidegate.errors import Refused

# Far above any model: keeps arithmetic on hostile values bounded.
LARGEST = 2**31


def names(listed: str) -> frozenset[str]:
    """Return the names of a list that is separated by spaces."""
    return frozenset(listed.split())


def invalid(key: str, problem: str) -> NoReturn:
    """Refuse the config for one key.

    Raises:
        Refused: always, with MODEL_CONFIG_INVALID.
    """
    raise Refused(
        Reason.MODEL_CONFIG_INVALID,
        f"the model's config.json: {key} {problem}",
        f"spec.model.config.{key}",
    )


def not_sized(keys: list[str], why: str) -> NoReturn:
    """Refuse a structure that the rules do not cover, naming its keys.

    Raises:
        Refused: always, with MODEL_NOT_SIZED.
    """
    raise Refused(
        Reason.MODEL_NOT_SIZED,
        f"the sizing rules do not cover this model: {why} (config.json: {', '.join(keys)})",
        f"spec.model.config.{keys[0]}",
    )


def present(config: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """Return the first of `keys` that has a value; null counts as absent."""
    return next((key for key in keys if config.get(key) is not None), None)


def integer(config: Mapping[str, Any], keys: tuple[str, ...], at_least: int = 1) -> int | None:
    """Return the whole number under the first of `keys` that is present, or None.

    A list with the same number for each layer is that number.

    Raises:
        Refused: it is no whole number, or out of bounds.
    """
    key = present(config, keys)
    if key is None:
        return None
    value = config[key]
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        value = value[0]
    if isinstance(value, list | Mapping):
        not_sized([key], f"{key} differs by layer")
    if isinstance(value, bool) or not isinstance(value, int):
        invalid(key, f"must be a whole number, not {value!r}"[:200])
    if not at_least <= value <= LARGEST:
        invalid(key, f"must be from {at_least} to {LARGEST}, not {value}")
    return value


def required(config: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """Return the whole number under the first of `keys` that is present.

    Raises:
        Refused: none is present, or the value makes no sense.
    """
    value = integer(config, keys)
    if value is None:
        others = f" (or {', '.join(keys[1:])})" if len(keys) > 1 else ""
        invalid(keys[0], f"is missing{others}")
    return value


def flag(config: Mapping[str, Any], key: str, default: bool = False) -> bool:
    """Return the boolean under `key`.

    Raises:
        Refused: the value is no boolean.
    """
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        invalid(key, f"must be true or false, not {value!r}"[:200])
    return value


def text(config: Mapping[str, Any], key: str) -> str | None:
    """Return the string under `key`, or None.

    Raises:
        Refused: the value is no string.
    """
    value = config.get(key)
    if value is not None and not isinstance(value, str):
        invalid(key, f"must be a string, not {value!r}"[:200])
    return value


def mapping(config: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Return the object under `key`, or None.

    Raises:
        Refused: the value is no object.
    """
    value = config.get(key)
    if value is not None and not isinstance(value, Mapping):
        invalid(key, f"must be an object, not {value!r}"[:200])
    return value


def inside(config: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Return the object under `key` with its keys spelled as paths, `key.name`, or None.

    Raises:
        Refused: the value is no object.
    """
    found = mapping(config, key)
    return None if found is None else {f"{key}.{name}": value for name, value in found.items()}
