"""Checks of a request's fields: the types of the schema, and the values of vLLM's own rules."""

from __future__ import annotations

from typing import Any

from e2e.double.api_errors import ApiError, bad_request, invalid

Body = dict[str, Any]
MAX_CHOICES = 16_384

# Optional fields that both endpoints know, by the type they must have. Other fields pass.
FIELDS: dict[str, str] = {
    "model": "str",
    "max_tokens": "int",
    "max_completion_tokens": "int",
    "min_tokens": "int",
    "n": "int",
    "seed": "int",
    "priority": "int",
    "logprobs": "any",
    "temperature": "float",
    "top_p": "float",
    "top_k": "int",
    "presence_penalty": "float",
    "frequency_penalty": "float",
    "stream": "bool",
    "echo": "bool",
    "ignore_eos": "bool",
    "return_token_ids": "bool",
    "stream_options": "dict",
    "kv_transfer_params": "dict",
    "stop_token_ids": "list",
    "cache_salt": "str",
}


def check_fields(body: Body) -> None:
    """Check what a body holds, but for its prompt.

    Raises:
        ApiError: a field has a wrong type, or may not stand beside another.
    """
    _check_together(body)
    for name, kind in FIELDS.items():
        _check(name, kind, body.get(name))
    if any(not is_token(token) for token in body.get("stop_token_ids") or []):
        raise invalid("int_parsing", "body.stop_token_ids.0", "Input should be a valid integer", "")


def check_values(body: Body, limit: int | None, limit_param: str, max_model_len: int) -> None:
    """Check numbers against their bounds.

    Raises:
        ApiError: one is out of them.
    """
    choices = 1 if body.get("n") is None else int(body["n"])
    if choices < 1:
        raise bad_request(f"n must be at least 1, got {choices}.")
    if choices > MAX_CHOICES:
        raise bad_request(f"n must be at most {MAX_CHOICES}, got {choices}.")
    low = int(body.get("min_tokens") or 0)
    if low < 0:
        raise bad_request(f"min_tokens must be greater than or equal to 0, got {low}.")
    if choices > 1 and is_greedy(body):
        raise bad_request(f"n must be 1 when using greedy sampling, got {choices}.")
    temperature = body.get("temperature")
    if temperature is not None and not 0 <= float(temperature) <= 2:
        problem = "non-negative" if float(temperature) < 0 else "in [0, 2]"
        raise bad_request(
            f"temperature must be {problem}, got {float(temperature)}.",
            "temperature",
            float(temperature),
        )
    top_p = body.get("top_p")
    if top_p is not None and not 0 < float(top_p) <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {float(top_p)}.", "top_p", float(top_p))
    if limit is not None and limit > max_model_len:
        raise bad_request(
            f"{limit_param}={limit} cannot be greater than max_model_len={max_model_len}. Please "
            "request fewer output tokens.",
            limit_param,
            limit,
        )


def check_length(length: int, max_model_len: int) -> None:
    """Refuse a prompt beyond the longest sequence.

    Raises:
        ApiError: it is longer.
    """
    if length > max_model_len:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains {length} input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt.",
            "input_tokens",
            length,
        )


def is_token(value: object) -> bool:
    """Tell whether a JSON value can be a token id."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_greedy(body: Body) -> bool:
    """Tell whether a request asks for temperature 0."""
    temperature = body.get("temperature")
    return temperature is not None and float(temperature) == 0


def _check_together(body: Body) -> None:
    extra = body.get("vllm_xargs")
    if isinstance(extra, dict) and "kv_transfer_params" in extra:
        raise ApiError(500, "InternalServerError", "")
    if body.get("stream_options") and not body.get("stream"):
        problem = "Stream options can only be defined when `stream=True`."
        raise bad_request(problem, "stream_options")
    if body.get("cache_salt") == "":
        problem = "Parameter 'cache_salt' must be a non-empty string if provided."
        raise bad_request(problem, "cache_salt")


def _check(name: str, kind: str, value: object) -> None:
    if value is None or kind == "any":
        return
    place = f"body.{name}"
    if kind == "dict" and not isinstance(value, dict):
        raise invalid("dict_type", place, "Input should be a valid dictionary", value)
    if kind == "list" and not isinstance(value, list):
        raise invalid("list_type", place, "Input should be a valid list", value)
    if kind == "str" and not isinstance(value, str):
        raise invalid("string_type", place, "Input should be a valid string", value)
    if kind == "bool" and value not in (True, False, "true", "false", "1", "0"):
        raise invalid(
            "bool_parsing",
            place,
            "Input should be a valid boolean, unable to interpret input",
            value,
        )
    if kind in ("int", "float"):
        _check_number(place, kind, value)


def _check_number(place: str, kind: str, value: object) -> None:
    noun = "integer" if kind == "int" else "number"
    if isinstance(value, str):
        try:
            int(value) if kind == "int" else float(value)
        except ValueError:
            raise invalid(
                f"{kind}_parsing",
                place,
                f"Input should be a valid {noun}, unable to parse "
                f"string as {'an integer' if kind == 'int' else 'a number'}",
                value,
            ) from None
    elif not isinstance(value, int | float):
        raise invalid(f"{kind}_type", place, f"Input should be a valid {noun}", value)
    elif kind == "int" and float(value) != int(value):
        raise invalid(
            "int_from_float",
            place,
            "Input should be a valid integer, got a number with a fractional part",
            value,
        )
