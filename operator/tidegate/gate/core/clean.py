"""What a client's body must not tell an engine, and what the gate asks in its place.

`kv_transfer_params` names blocks of another request and the host to fetch them from; malformed, it
stops the engine. `priority` jumps the engine's own queue. `request_id` is the gate's to give. A
body that holds none of them goes on byte for byte; `cache_salt` too, it keeps a client's prefix
cache to itself.
"""

import unicodedata
from typing import Any

import orjson

from tidegate.gate.core.document import Document


def _fields(names: str) -> frozenset[str]:
    return frozenset(names.split())


_TRANSFER = frozenset({"kvtransferparams", "ectransferparams", "dataparallelrank"})
"""Fields that address engines, dropped wherever an engine might look, however spelled."""
_OUTERMOST = _TRANSFER | {"priority", "requestid"}
"""Fields of the outermost object, and of what stands in for it, that are dropped."""
_CARRIERS = frozenset({"vllmxargs", "extraargs", "extrabody", "nvext"})
"""Objects whose fields engines, or routers before them, lift into the request."""
_CONTENT = _fields(
    """
    messages prompt input instructions tools tool_choice functions function_call response_format
    structured_outputs guided_json guided_regex guided_choice guided_grammar text metadata documents
    chat_template chat_template_kwargs mm_processor_kwargs media_io_kwargs logit_bias stop suffix
    prediction reasoning include previous_input_messages web_search_options audio modalities
    stop_token_ids allowed_token_ids bad_words logprob_token_ids repetition_detection
    """
)
"""Fields whose insides are the client's: a tool may have a parameter of any name."""
_PLAIN = _fields(
    """
    model stream stream_options n best_of max_tokens max_completion_tokens max_output_tokens
    min_tokens temperature top_p top_k min_p typical_p seed user echo logprobs top_logprobs
    prompt_logprobs presence_penalty frequency_penalty repetition_penalty length_penalty ignore_eos
    parallel_tool_calls reasoning_effort store service_tier truncation safety_identifier
    prompt_cache_key prompt_cache_retention verbosity encoding_format dimensions cache_salt
    skip_special_tokens spaces_between_special_tokens include_stop_str_in_output include_reasoning
    add_special_tokens add_generation_prompt continue_final_message truncate_prompt_tokens
    truncation_side return_token_ids return_tokens_as_token_ids thinking_token_budget
    stream_interval max_tool_calls return_token_strs session_id background previous_response_id
    """
)
_NESTING = frozenset({dict, list})
_USAGE = b',"stream_options":{"include_usage":true}}'


def clean(body: bytes, document: Document, *, asks_usage: bool) -> bytes:
    """Return the body for the engine, the same object where nothing has to change.

    With `asks_usage` the engine is to tell the usage at the end of its stream. `document` is the
    decoded body; it is changed along.
    """
    changed = _strip(document)
    if asks_usage:
        options = document.get("stream_options")
        if options is None and "stream_options" not in document and not changed:
            document["stream_options"] = {"include_usage": True}
            return body[: body.rindex(b"}")] + _USAGE
        if options is None or isinstance(options, dict):
            document["stream_options"] = _with_usage(options or {})
            changed = True
    return orjson.dumps(document) if changed else body


def _with_usage(options: Document) -> Document:
    """Ask for one usage at the end; not in every chunk, where the engine had left it out."""
    kept = {key: value for key, value in options.items() if key != "continuous_usage_stats"}
    return {**kept, "include_usage": True}


def _strip(document: Document) -> bool:
    """Drop what is the gate's to say; tells whether anything was."""
    changed = False
    for key in document.keys() - _CONTENT:
        if key in _PLAIN:
            if type(document[key]) in _NESTING:
                changed |= _strip_inside(document[key], _TRANSFER)
            continue
        name = _plain_name(key)
        if name in _OUTERMOST:
            del document[key]
            changed = True
        elif name in _CARRIERS:
            changed |= _strip_carrier(document, key)
        else:
            changed |= _strip_inside(document[key], _TRANSFER)
    return changed


def _strip_carrier(document: Document, key: str) -> bool:
    """Clean an object that stands in for the request; text there may hide one, so it is dropped."""
    if isinstance(document[key], str):
        del document[key]
        return True
    return _strip_inside(document[key], _OUTERMOST)


def _strip_inside(value: Any, names: frozenset[str]) -> bool:
    """Drop fields of these names from a value, at any depth."""
    changed, waiting = False, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            dropped = [key for key in item if _plain_name(key) in names]
            for key in dropped:
                del item[key]
            changed |= bool(dropped)
            waiting += item.values()
        elif isinstance(item, list) and not _NESTING.isdisjoint(map(type, item)):
            waiting += item
    return changed


def _plain_name(key: str) -> str:
    """Fold the spellings of a name into one: case, separators, full-width and look-alike forms."""
    if not key.isascii():
        key = unicodedata.normalize("NFKC", key)
    return "".join(filter(str.isalnum, key.casefold()))
