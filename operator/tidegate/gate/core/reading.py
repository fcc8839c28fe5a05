"""From a request's bytes to an `Ask`: read it, clean it, count it, and know who asks."""

from itertools import count

from tidegate.api.gate_config import GateConfig
from tidegate.gate.core import (
    bounds,
    clean,
    content,
    document,
    faults,
    headers,
    prefix,
    room,
    scripts,
    surfaces,
)
from tidegate.gate.core.callers import Callers
from tidegate.gate.core.content import Content
from tidegate.gate.core.count import Counts
from tidegate.gate.core.headers import Heeded
from tidegate.gate.core.keys import Keys
from tidegate.gate.exchange import Ask, Head, Refusal, Script, Surface, Usage, Why

_TELLS_USAGE = frozenset({Surface.COMPLETIONS, Surface.CHAT})
"""Surfaces whose streams tell the usage only on request."""
_NOT_CONFIGURED = Refusal(
    503,
    Why.NO_CONFIGURATION,
    "The gate has no configuration yet.",
    kind="service_unavailable_error",
    retry_after_seconds=1,
)


class Reader:
    """Reads requests for one deployment; learns how long its prompts are."""

    def __init__(self, config: GateConfig | None, keys: Keys) -> None:
        self._keys = keys
        self._counts = Counts()
        self._serials = count(1)
        self._config: GateConfig | None = None
        self._callers: Callers
        if config is not None:
            self.configure(config)

    def configure(self, config: GateConfig) -> None:
        """Take a new configuration; what was learned stays."""
        self._callers = Callers(self._keys, config.tenants)
        self._models = frozenset(config.models)
        self._own_name = f"{config.namespace}/{config.deployment}"
        self._config = config

    def use_keys(self, keys: Keys) -> None:
        """Replace the keys, all of them."""
        self._keys = keys
        if self._config is not None:
            self._callers = Callers(keys, self._config.tenants)

    def head(self, head: Head) -> Refusal | None:
        """Judge a head before its body is read: path, method, key. None when it may go on."""
        refusal = surfaces.judge(head.method, head.path)
        if refusal is not None:
            return refusal
        if self._config is None:
            return _NOT_CONFIGURED
        try:
            heeded = headers.heed(head.headers)
            self._callers.of(heeded.told, head.peer)
            self._check_head(heeded)
        except faults.Fault as fault:
            return fault.refusal
        return None

    def read(self, head: Head, body: bytes, request_id: str) -> Ask | Refusal:
        """Read, clean, count and class a request."""
        refusal = surfaces.judge(head.method, head.path)
        surface = surfaces.of(head.path)
        config = self._config
        if refusal is not None or surface is None:
            return refusal or _NOT_CONFIGURED
        if config is None:
            return _NOT_CONFIGURED
        try:
            heeded = headers.heed(head.headers)
            self._check_head(heeded)
            if surface is Surface.MODELS:
                return self._list(heeded, head, request_id, config)
            return self._ask(surface, heeded, head.peer, body, request_id, config)
        except faults.Fault as fault:
            return fault.refusal

    def learn(self, ask: Ask, usage: Usage) -> None:
        """Correct the tokens per character, message or image from what the engine counted."""
        self._counts.learn(ask, usage)

    def estimate_error(self) -> float | None:
        """Return the mean miss of late estimates of prompts, as a share of the truth."""
        return self._counts.estimate_error()

    def tokens_per_character(self, script: Script) -> float:
        """Return what has been learned of a kind of text."""
        return self._counts.tokens_per_character(script)

    def _check_head(self, heeded: Heeded) -> None:
        if heeded.told.get(b"content-encoding", b"identity").lower() != b"identity":
            raise faults.bad_request("Send the body without content-encoding.", status=415)
        if self._own_name in headers.shifted_by(heeded):
            raise faults.Fault(
                Refusal(
                    508,
                    Why.SHIFT_LOOP,
                    f"The request was sent on and came back to {self._own_name}: "
                    "the deployments' shift shares point at each other.",
                    kind="server_error",
                )
            )

    def _list(self, heeded: Heeded, head: Head, request_id: str, config: GateConfig) -> Ask:
        return Ask(
            request_id=request_id,
            surface=Surface.MODELS,
            model=config.models[0],
            caller=self._callers.of(heeded.told, head.peer),
            body=b"",
            headers=headers.for_engine(heeded, request_id),
            prompt_tokens=0,
            output_limit=0,
            serial=next(self._serials),
        )

    def _ask(
        self,
        surface: Surface,
        heeded: Heeded,
        peer: str,
        body: bytes,
        request_id: str,
        config: GateConfig,
    ) -> Ask:
        limits = config.limits
        caller = self._callers.of(heeded.told, peer)
        if len(body) > limits.body_bytes:
            message = f"The body has {len(body)} bytes, more than {limits.body_bytes}."
            raise faults.Fault(Refusal(413, Why.TOO_LARGE, message))
        asked = document.parse(body, limits.json_depth)
        model = self._model(asked, config)
        streams = bounds.flag(asked, "stream")
        wanted = bounds.output(asked, surface, limits)
        told = content.of(asked, surface, limits.prompts)
        characters, script, tokens = self._count(asked, told)
        if surface is Surface.TOKENIZE:
            tokens = characters = 0  # it takes no KV cache
        else:
            room.require(tokens, wanted, surface, config.max_model_len, is_exact=not characters)
        wants_usage = not streams or _wants_usage(asked, surface)
        return Ask(
            request_id=request_id,
            surface=surface,
            model=model,
            caller=caller,
            body=clean.clean(body, asked, asks_usage=not wants_usage),
            headers=headers.for_engine(heeded, request_id),
            prompt_tokens=tokens,
            output_limit=room.output_limit(tokens, wanted, surface, config.max_model_len),
            samples=told.prompts * wanted.samples,
            streams=streams,
            wants_usage=wants_usage,
            characters=characters,
            script=script,
            prefix=_prefix(asked, told, heeded),
            shifted=headers.SHIFTED in heeded.told,
            messages=told.messages,
            images=told.images,
            serial=next(self._serials),
        )

    def _model(self, asked: document.Document, config: GateConfig) -> str:
        model = asked.get("model")
        if model is None:
            return config.models[0]  # as vLLM does
        if type(model) is not str:
            raise faults.bad_request("model must be text.", "model")
        if model not in self._models:
            served = ", ".join(config.models)
            raise faults.unknown_model(
                f"The model {faults.shown(model, 128)} is not served here. Served: {served}."
            )
        return model

    def _count(self, asked: document.Document, told: Content) -> tuple[int, Script, int]:
        """Return the characters to learn from, their script, and the prompt's tokens."""
        if not told.texts and not told.messages:
            return 0, Script.LATIN, _truncated(asked, told.token_ids)
        characters = sum(map(len, told.texts))
        script = scripts.of(max(told.texts, key=len)) if told.texts else Script.LATIN
        estimate = self._counts.estimate(characters, script, told.messages, told.images)
        tokens = told.token_ids + estimate
        kept = _truncated(asked, tokens)
        # What is cut, or has token ids beside text, teaches nothing about the text.
        is_lesson = kept == tokens and not told.token_ids
        return characters if is_lesson else 0, script, kept


def _truncated(asked: document.Document, tokens: int) -> int:
    most = bounds.whole_number(asked, "truncate_prompt_tokens", least=-1)
    return tokens if most is None or most < 1 else min(tokens, most)


def _wants_usage(asked: document.Document, surface: Surface) -> bool:
    if surface not in _TELLS_USAGE:
        return True
    options = asked.get("stream_options")
    if options is None:
        return False
    if type(options) is not dict:
        raise faults.bad_request("stream_options must be an object.", "stream_options")
    return bounds.flag(options, "include_usage")


def _prefix(asked: document.Document, told: Content, heeded: Heeded) -> bytes:
    session = heeded.told.get(headers.SESSION) or _text(asked, "session_id").encode()
    if session:
        return prefix.of_session(session)
    # OpenAI's cache key, too, keeps apart what begins alike.
    salt = f"{_text(asked, 'cache_salt')}\x00{_text(asked, 'prompt_cache_key')}"
    if told.beginning:
        return prefix.of_ids(told.beginning, salt)
    return prefix.of_texts(told.texts, salt)


def _text(asked: document.Document, field: str) -> str:
    value = asked.get(field)
    return value if type(value) is str else ""
