"""Bodies of completion requests: JSON in, checked values out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from e2e.double.api_errors import ApiError, bad_request, invalid
from e2e.double.generation import Sampling
from e2e.double.vocabulary import Vocabulary

Body = dict[str, Any]
MAX_CHOICES = 16_384
DEFAULT_COMPLETION_TOKENS = 16

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


@dataclass(frozen=True)
class Prompt:
    """One prompt: its tokens, and the text to echo."""

    tokens: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Request:
    """A checked completion or chat request.

    Attributes:
        model: the name that was asked for; None for the server's own.
        max_tokens: output limit as asked; None for as much as fits.
        kv_transfer_params: as given; the gate between client and engine must have set it.
    """

    model: str | None
    prompts: tuple[Prompt, ...]
    is_chat: bool
    choices: int
    max_tokens: int | None
    max_tokens_param: str
    sampling: Body
    priority: int
    is_streamed: bool
    wants_usage: bool
    wants_continuous_usage: bool
    echoes: bool
    returns_token_ids: bool
    cache_salt: str
    kv_transfer_params: Body | None

    def sampling_of(self, prompt: Prompt, choice: int, max_model_len: int) -> Sampling:
        """Return what one choice of a prompt asks of the engine.

        Raises:
            ApiError: there is no room for a token after the prompt, or min_tokens does not fit.
        """
        room = max_model_len - len(prompt.tokens)
        limit = room if self.max_tokens is None else min(room, self.max_tokens)
        if limit < 1:
            raise bad_request(f"max_tokens must be at least 1, got {limit}.", "max_tokens", limit)
        low = int(self.sampling.get("min_tokens") or 0)
        if low > limit:
            raise bad_request(
                f"min_tokens must be less than or equal to max_tokens={limit}, got {low}."
            )
        is_greedy = _is_greedy(self.sampling)
        seed = int(self.sampling.get("seed") or 0)
        stop = self.sampling.get("stop") or []
        return Sampling(
            max_tokens=limit,
            min_tokens=low,
            ignore_eos=bool(self.sampling.get("ignore_eos")),
            stop_token_ids=frozenset(self.sampling.get("stop_token_ids") or ()),
            stop=(stop,) if isinstance(stop, str) else tuple(stop),
            variant=0 if is_greedy else (seed + choice) & 0xFFFFFFFF,
        )


def decode(raw: bytes) -> Body:
    """Read the JSON of a body.

    Raises:
        ApiError: it is not JSON, or not an object.
    """
    try:
        body = json.loads(raw)
    except json.JSONDecodeError as error:
        raise invalid(
            "json_invalid", f"body.{error.pos}", "JSON decode error", {}, error.msg
        ) from None
    except UnicodeDecodeError:
        raise bad_request("There was an error parsing the body") from None
    if not isinstance(body, dict):
        raise invalid(
            "model_attributes_type",
            "body",
            "Input should be a valid dictionary or object to extract fields from",
            body,
        )
    return body


def read(body: Body, vocabulary: Vocabulary, max_model_len: int, *, is_chat: bool) -> Request:
    """Check a body.

    Raises:
        ApiError: a field has a wrong type or value, or the prompt is too long.
    """
    _check_together(body)
    for name, kind in FIELDS.items():
        _check(name, kind, body.get(name))
    if any(not _is_token(token) for token in body.get("stop_token_ids") or []):
        raise invalid("int_parsing", "body.stop_token_ids.0", "Input should be a valid integer", "")
    prompts = _chat_prompt(body, vocabulary) if is_chat else _prompts(body, vocabulary)
    limit_param = "max_tokens"
    limit = body.get("max_tokens", None if is_chat else DEFAULT_COMPLETION_TOKENS)
    if is_chat and body.get("max_completion_tokens") is not None:
        limit_param, limit = "max_completion_tokens", body["max_completion_tokens"]
    _check_values(body, None if limit is None else int(limit), limit_param, max_model_len)
    for prompt in prompts:
        _check_length(len(prompt.tokens), max_model_len)
    options = body.get("stream_options") or {}
    return Request(
        model=body.get("model"),
        prompts=prompts,
        is_chat=is_chat,
        choices=1 if body.get("n") is None else int(body["n"]),
        max_tokens=None if limit is None else int(limit),
        max_tokens_param=limit_param,
        sampling=body,
        priority=int(body.get("priority") or 0),
        is_streamed=bool(body.get("stream")),
        wants_usage=bool(options.get("include_usage")),
        wants_continuous_usage=bool(options.get("continuous_usage_stats")),
        echoes=bool(body.get("echo")) and not is_chat,
        returns_token_ids=bool(body.get("return_token_ids")),
        cache_salt=body.get("cache_salt") or "",
        kv_transfer_params=body.get("kv_transfer_params"),
    )


def chat_messages(body: Body) -> list[tuple[str, str]]:
    """Return role and text of the messages of a chat.

    Raises:
        ApiError: they are missing or have another form.
    """
    if "messages" not in body:
        raise invalid("missing", "body.messages", "Field required", body)
    messages = body["messages"]
    if not isinstance(messages, list):
        raise bad_request(f"'{type(messages).__name__}' object is not iterable")
    if not messages:
        raise bad_request(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    pairs: list[tuple[str, str]] = []
    for index, message in enumerate(messages):
        # The first of the forms that a message may have is the one that is named.
        place = f"body.messages.{index}.ChatCompletionDeveloperMessageParam"
        if not isinstance(message, dict):
            raise invalid("dict_type", place, "Input should be a valid dictionary", message)
        if not isinstance(message.get("role"), str):
            raise invalid("missing", f"{place}.role", "Field required", message)
        pairs.append((message["role"], _content(message.get("content"))))
    return pairs


def _content(content: object) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _chat_prompt(body: Body, vocabulary: Vocabulary) -> tuple[Prompt, ...]:
    pairs = chat_messages(body)
    adds_prompt = body.get("add_generation_prompt", True)
    return (Prompt(tuple(vocabulary.encode_chat(pairs, add_generation_prompt=adds_prompt)), ""),)


def _prompts(body: Body, vocabulary: Vocabulary) -> tuple[Prompt, ...]:
    given = body.get("prompt")
    if given in (None, ""):
        problem = "Either prompt or prompt_embeds must be provided and non-empty."
        raise bad_request(problem, "prompt")
    if given == []:
        raise bad_request("You must pass at least one prompt")
    if isinstance(given, str) or (isinstance(given, list) and _is_token(given[0])):
        given = [given]
    if not isinstance(given, list):
        raise invalid("string_type", "body.prompt", "Input should be a valid string", given)
    return tuple(_prompt(item, vocabulary) for item in given)


def _prompt(given: object, vocabulary: Vocabulary) -> Prompt:
    if isinstance(given, str):
        tokens = tuple(vocabulary.encode(given))
        if not tokens:
            raise bad_request("The decoder prompt cannot be empty")
        return Prompt(tokens, given)
    if not isinstance(given, list) or not all(_is_token(token) for token in given):
        raise invalid("int_parsing", "body.prompt.0", "Input should be a valid integer", given)
    if not given:
        raise bad_request("The decoder prompt cannot be empty")
    if min(given) < 0:
        problem = "Input should be greater than or equal to 0"
        raise invalid("greater_than_equal", "body.prompt.0", problem, min(given))
    highest = max(given)
    if highest >= vocabulary.size:
        raise bad_request(f"Token id {highest} is out of vocabulary")
    return Prompt(tuple(given), vocabulary.decode(given))


def _is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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


def _check_values(body: Body, limit: int | None, limit_param: str, max_model_len: int) -> None:
    choices = 1 if body.get("n") is None else int(body["n"])
    if choices < 1:
        raise bad_request(f"n must be at least 1, got {choices}.")
    if choices > MAX_CHOICES:
        raise bad_request(f"n must be at most {MAX_CHOICES}, got {choices}.")
    low = int(body.get("min_tokens") or 0)
    if low < 0:
        raise bad_request(f"min_tokens must be greater than or equal to 0, got {low}.")
    if choices > 1 and _is_greedy(body):
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


def _is_greedy(body: Body) -> bool:
    temperature = body.get("temperature")
    return temperature is not None and float(temperature) == 0


def _check_length(length: int, max_model_len: int) -> None:
    if length > max_model_len:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains {length} input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt.",
            "input_tokens",
            length,
        )
