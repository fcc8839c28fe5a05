"""Bodies of completion requests: JSON in, checked values out."""

from __future__ import annotations

import json
from dataclasses import dataclass

from e2e.double import validation
from e2e.double.api_errors import bad_request, invalid
from e2e.double.generation import Sampling
from e2e.double.validation import Body
from e2e.double.vocabulary import Vocabulary

DEFAULT_COMPLETION_TOKENS = 16


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
        is_greedy = validation.is_greedy(self.sampling)
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
    validation.check_fields(body)
    prompts = _chat_prompt(body, vocabulary) if is_chat else _prompts(body, vocabulary)
    limit_param = "max_tokens"
    limit = body.get("max_tokens", None if is_chat else DEFAULT_COMPLETION_TOKENS)
    if is_chat and body.get("max_completion_tokens") is not None:
        limit_param, limit = "max_completion_tokens", body["max_completion_tokens"]
    validation.check_values(body, None if limit is None else int(limit), limit_param, max_model_len)
    for prompt in prompts:
        validation.check_length(len(prompt.tokens), max_model_len)
    options = body.get("stream_options") or {}
    return Request(
        model=body.get("model"),
        prompts=prompts,
        is_chat=is_chat,
        choices=1 if body.get("n") is None else int(body["n"]),
        max_tokens=None if limit is None else int(limit),
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
    if isinstance(given, str) or (isinstance(given, list) and validation.is_token(given[0])):
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
    if not isinstance(given, list) or not all(validation.is_token(token) for token in given):
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
