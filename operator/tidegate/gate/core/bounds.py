"""The fields of a body that the budgets rest on, read strictly.

Engines take `"16"`, `16.0` and `true` for whole numbers. The gate reserves by these fields, so
that it reads only what cannot be read in two ways, and refuses the rest with the field's name.
"""

from tidegate.api.gate_config import Limits
from tidegate.gate.core import faults
from tidegate.gate.core.document import Document
from tidegate.gate.exchange import Surface
from tidegate.gate.values import value_class

_LARGEST = 2**53
"""Whole numbers up to here are exact in every JSON parser."""
_OUTPUT_FIELDS = {
    Surface.COMPLETIONS: ("max_tokens",),
    Surface.CHAT: ("max_completion_tokens", "max_tokens"),
    Surface.RESPONSES: ("max_output_tokens",),
}
_SAMPLED = frozenset({Surface.COMPLETIONS, Surface.CHAT})
"""Surfaces that know `n` and `min_tokens`."""
_DEFAULT_OUTPUT = {Surface.COMPLETIONS: 16}
"""What the OpenAI API, and vLLM with it, makes of a completion without max_tokens."""
_UNSERVED = {
    "use_beam_search": "beam search is not served: the engine runs each beam as a request of its "
    "own. Leave the field out and use `n`.",
    "background": "background responses are not served: nobody would wait for the tokens that "
    "they take. Leave the field out and stream.",
    "previous_response_id": "stored responses are not served: the next request may go to another "
    "engine. Send the whole conversation in `input`.",
    "prompt_embeds": "prompts of embeddings are not served: their tokens cannot be counted. "
    "Send text or token ids in `prompt`.",
}
_SAMPLES = ("n", "best_of")
_LOGPROBS = ("logprobs", "top_logprobs", "prompt_logprobs")
_LEAST = "min_tokens"
_WITHOUT_END = "ignore_eos"
_STOPS = ("stop", "stop_token_ids")
_RARE = frozenset({*_UNSERVED, *_SAMPLES, *_LOGPROBS, _LEAST, _WITHOUT_END})


@value_class
class Output:
    """What is asked of the engine: `field` and `limit` are None where none was named.

    `least` is what each answer has at least, if its limit allows; of one that heeds no end
    more than any limit.
    """

    samples: int
    field: str | None
    limit: int | None
    least: int = 0


def output(document: Document, surface: Surface, limits: Limits) -> Output:
    """Read how many answers are wanted and how long; raises `Fault` beyond the limits."""
    samples, least = 1, 0
    if not _RARE.isdisjoint(document):
        _require_served(document)
        _check_logprobs(document, limits.logprobs)
        samples = _samples(document, limits.choices)
        least = _least(document, surface)
    named: str | None = None
    limit: int | None = None
    for name in _OUTPUT_FIELDS.get(surface, ()):
        value = whole_number(document, name, least=0)
        if value is not None and (limit is None or value > limit):
            named, limit = name, value
    if limit is None and "max_tokens" not in document:
        limit = _DEFAULT_OUTPUT.get(surface)
    return Output(samples if surface in _SAMPLED else 1, named, limit, least)


def scores_prompt(document: Document, surface: Surface) -> bool:
    """Tell whether an engine is to score the prompt's own tokens.

    By name, or as a part of an echo: vLLM scores that of a chat always.
    """
    if document.get("prompt_logprobs") is not None:
        return True
    is_scored = surface is Surface.CHAT or document.get("logprobs") is not None
    return bool(document.get("echo")) and is_scored


def flag(document: Document, field: str) -> bool:
    """Read a field that is true, false or absent."""
    value = document.get(field)
    if value is None or value is False:
        return False
    if value is True:
        return True
    raise faults.bad_request(f"{field} must be true or false.", field)


def whole_number(document: Document, field: str, *, least: int = -_LARGEST) -> int | None:
    """Read a whole number; None where it is absent or null."""
    value = document.get(field)
    if value is None:
        return None
    if type(value) is float and value.is_integer() and abs(value) <= _LARGEST:
        value = int(value)
    if type(value) is not int:
        raise faults.bad_request(f"{field} must be a whole number, without quotes.", field)
    if not least <= value <= _LARGEST:
        raise faults.bad_request(f"{field} must be from {least} to {_LARGEST}.", field)
    return value


def _require_served(document: Document) -> None:
    for field, why in _UNSERVED.items():
        if document.get(field):
            raise faults.bad_request(f"{field}: {why}", field)


def _samples(document: Document, most: int) -> int:
    samples = 1
    for field in _SAMPLES:
        if field in document:
            value = whole_number(document, field, least=1) or 1
            if value > most:
                raise faults.bad_request(f"{field} may be at most {most}, not {value}.", field)
            samples = max(samples, value)
    return samples


def _least(document: Document, surface: Surface) -> int:
    """Return the tokens that each answer has at least; stops of its own may end one before."""
    is_endless = flag(document, _WITHOUT_END) and not any(map(document.get, _STOPS))
    if surface in _OUTPUT_FIELDS and is_endless:
        return _LARGEST
    if surface not in _SAMPLED:
        return 0
    return whole_number(document, _LEAST, least=0) or 0


def _check_logprobs(document: Document, most: int) -> None:
    for field in _LOGPROBS:
        if field not in document or type(document[field]) is bool:
            continue  # in chat `logprobs` is a flag
        value = whole_number(document, field, least=0)  # -1 asks for the whole vocabulary
        if value is not None and value > most:
            raise faults.bad_request(f"{field} may be at most {most}, not {value}.", field)
