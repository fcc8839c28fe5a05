"""The requests with which two servers are compared: small ones, good and bad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

WORD = " hello"
FIRST_STEP = {"do_remote_decode": True, "do_remote_prefill": False}
WRONG_VALUES: tuple[tuple[str, object], ...] = (
    *(("n", 0), ("n", "x"), ("n", 1.5), ("temperature", -1), ("temperature", "hot")),
    *(("top_p", 0), ("min_tokens", 99), ("min_tokens", -1), ("stream", "perhaps")),
    *(("stop_token_ids", 3), ("stop_token_ids", ["x"]), ("seed", "x"), ("max_tokens", 0)),
    *(("max_tokens", "x"), ("priority", 5), ("stream_options", 3), ("model", 3), ("model", None)),
    *(("cache_salt", ""), ("vllm_xargs", {"kv_transfer_params": "x"}), ("kv_transfer_params", {})),
)


@dataclass(frozen=True)
class Probe:
    """One request; `raw` in place of `body` is sent as it is."""

    name: str
    path: str
    body: Mapping[str, Any] | None = None
    raw: str = ""


def probes(model: str, block: int) -> Iterator[Probe]:
    """Yield the requests whose answers are compared."""
    for path in ("/health", "/ping", "/version", "/v1/models", "/nothing"):
        yield Probe(path, path)
    base = {"model": model, "max_tokens": 3, "temperature": 0, "ignore_eos": True}
    prompt = {**base, "prompt": WORD * 10}
    chat = {**base, "messages": [{"role": "user", "content": "abc"}]}
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    for kind, path, body in (
        ("completion", "/v1/completions", prompt),
        ("chat", "/v1/chat/completions", chat),
    ):
        yield Probe(kind, path, body)
        yield Probe(f"{kind} of its own token ids", path, {**body, "return_token_ids": True})
        yield Probe(f"{kind} with three choices", path, {**body, "n": 3, "temperature": 1})
        yield Probe(f"greedy {kind} with three choices", path, {**body, "n": 3})
        for name, value in WRONG_VALUES:
            yield Probe(f"{kind}, {name}={value!r}", path, {**body, name: value})
        yield Probe(f"streamed {kind}", path, {**body, "stream": True})
        yield Probe(f"streamed {kind} with usage", path, {**body, **streamed})
        yield Probe(f"unknown model, {kind}", path, {**body, "model": "nope"})
        yield Probe(f"too many output tokens, {kind}", path, {**body, "max_tokens": 10**7})
        yield Probe(
            f"params that are not an object, {kind}", path, {**body, "kv_transfer_params": "x"}
        )
        yield Probe(f"priority in words, {kind}", path, {**body, "priority": "high"})
    first = {**prompt, "max_tokens": 1, "kv_transfer_params": FIRST_STEP}
    yield Probe("first step of a pair", "/v1/completions", first)
    yield Probe("two prompts", "/v1/completions", {**prompt, "prompt": [WORD * 3, WORD * 5]})
    yield Probe("token ids", "/v1/completions", {**prompt, "prompt": [300, 301, 302]})
    yield Probe("two lists of ids", "/v1/completions", {**prompt, "prompt": [[300], [301, 302]]})
    yield Probe("echo", "/v1/completions", {**prompt, "echo": True})
    yield Probe("broken JSON", "/v1/completions", raw="{")
    for value in (None, "", [], [[]], 3, ["a", 3], [-1], [10**6], {"a": 1}, [""]):
        yield Probe(f"prompt {value!r}", "/v1/completions", {**base, "prompt": value})
    for value in (None, [], 3, [{"content": "a"}], [{"role": "user"}], ["a"]):
        yield Probe(f"messages {value!r}", "/v1/chat/completions", {**base, "messages": value})
    yield Probe("no prompt", "/v1/completions", base)
    yield Probe("no messages", "/v1/chat/completions", base)
    yield Probe("no object", "/v1/completions", raw="[1]")
    yield Probe("nothing", "/v1/completions", raw=" ")
    yield Probe("GET", "/v1/completions")
    yield Probe("load", "/load")
    yield Probe("detokenize", "/detokenize", {"model": model, "tokens": [300, 301]})
    yield Probe("tokenize nothing", "/tokenize", {"model": model})
    yield Probe("tokenize for nobody", "/tokenize", {"model": "nope", "prompt": "a"})
    yield Probe("token strings", "/tokenize", {"prompt": WORD, "return_token_strs": True})
    yield Probe("hot", "/v1/completions", {**prompt, "temperature": 3})
    yield Probe(
        "usage without a stream",
        "/v1/completions",
        {**prompt, "stream_options": {"include_usage": True}},
    )
    yield Probe("negative output", "/v1/completions", {**prompt, "max_tokens": -1})
    yield Probe("prompt beyond the limit", "/v1/completions", {**prompt, "prompt": [300] * 10**5})
    yield Probe(
        "default length", "/v1/completions", {"model": model, "prompt": WORD, "ignore_eos": True}
    )
    yield Probe("tokenize", "/tokenize", {"model": model, "prompt": WORD * block + "abc"})
    yield Probe("tokenize a chat", "/tokenize", {"model": model, "messages": chat["messages"]})
