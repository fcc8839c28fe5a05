"""From a request's bytes to an `Ask`: read it, clean it, count it, and know who asks."""

from collections.abc import Collection, Mapping
from itertools import count

from tidegate.api.gate_config import GateConfig, Limits
from tidegate.gate.core import (
    bounds,
    clean,
    content,
    document,
    faults,
    headers,
    offers,
    prefix,
    prompt_size,
    room,
    surfaces,
)
from tidegate.gate.core.callers import Callers
from tidegate.gate.core.content import Content
from tidegate.gate.core.count import Counts
from tidegate.gate.core.headers import Heeded
from tidegate.gate.core.keys import Keys
from tidegate.gate.exchange import Ask, Caller, Head, Refusal, Script, Surface, Usage, Why
from tidegate.gate.values import value_class

_TELLS_USAGE = frozenset({Surface.COMPLETIONS, Surface.CHAT})
"""Surfaces whose streams tell the usage only on request."""
_NOT_CONFIGURED = Refusal(
    503,
    Why.NO_CONFIGURATION,
    "The gate has no configuration yet.",
    kind="service_unavailable_error",
    retry_after_seconds=1,
)


@value_class
class _Admitted:
    """A head that may go on to its body, as `callers` know its caller."""

    surface: Surface
    config: GateConfig
    heeded: Heeded
    caller: Caller
    callers: Callers


@value_class
class Reading:
    """All that it takes to read one request's body: small, and the same in another process.

    `lengths` are the tokens that the model takes under each of its names, the usual one first.
    """

    request_id: str
    surface: Surface
    heeded: Heeded
    caller: Caller
    lengths: Mapping[str, int]
    limits: Limits
    counts: Counts
    serial: int

    def of(self, body: bytes) -> Ask | Refusal:
        """Read, clean and count it."""
        try:
            return self._ask(body)
        except faults.Fault as fault:
            return fault.refusal

    def _ask(self, body: bytes) -> Ask:
        surface, limits, heeded = self.surface, self.limits, self.heeded
        if len(body) > limits.body_bytes:
            raise faults.too_large(len(body), limits.body_bytes)
        asked = document.parse(body, limits.json_depth)
        named = _model(asked, self.lengths)
        max_model_len = max(self.lengths.values()) if named is None else self.lengths[named]
        streams = bounds.flag(asked, "stream") and surfaces.generates(surface)
        wanted = bounds.output(asked, surface, limits)
        told = content.of(asked, surface, limits.prompts)
        size = prompt_size.of(asked, told, self.counts)
        if surface is Surface.TOKENIZE:
            size = prompt_size.NONE
        room.require(size, wanted, surface, max_model_len)
        output_limit = room.output_limit(size, wanted, surface, max_model_len)
        wants_usage = not streams or _wants_usage(asked, surface)
        return Ask(
            request_id=self.request_id,
            surface=surface,
            model=next(iter(self.lengths)) if named is None else named,
            caller=self.caller,
            body=clean.clean(body, asked, asks_usage=not wants_usage),
            headers=headers.for_engine(heeded, self.request_id),
            prompt_tokens=size.tokens,
            output_limit=output_limit,
            samples=told.prompts * wanted.samples,
            prompts=told.prompts,
            fewest_tokens=room.fewest(size),
            streams=streams,
            wants_usage=wants_usage,
            characters=size.characters,
            script=size.script,
            prefix=_prefix(asked, told, heeded),
            shifted=headers.SHIFTED in heeded.told,
            messages=size.messages,
            images=size.images,
            serial=self.serial,
            names_model=named is not None,
            least_output=room.least_output(wanted, surface),
            least_expected=min(wanted.least, output_limit),
            scores_prompt=bounds.scores_prompt(asked, surface),
        )


class Reader:
    """Reads requests for one deployment; learns how long its prompts are."""

    def __init__(self, config: GateConfig | None, keys: Keys) -> None:
        self._keys = keys
        self._counts = Counts()
        self._serials = count(1)
        self._config: GateConfig | None = None
        self._lengths: Mapping[str, int] = {}
        self._callers: Callers
        if config is not None:
            self.configure(config)

    def configure(self, config: GateConfig) -> None:
        """Take a new configuration; what was learned stays."""
        self._callers = Callers(self._keys, config.tenants)
        self._own_name = f"{config.namespace}/{config.deployment}"
        self._lengths = {each.name: each.max_model_len for each in offers.models(config)}
        self._config = config

    def use_keys(self, keys: Keys) -> None:
        """Replace the keys, all of them."""
        self._keys = keys
        if self._config is not None:
            self._callers = Callers(keys, self._config.tenants)

    def head(self, head: Head) -> Refusal | None:
        """Judge a head before its body is read: path, method, key. None when it may go on."""
        try:
            head.judged = self._admit(head)
        except faults.Fault as fault:
            return fault.refusal
        return None

    def read(self, head: Head, body: bytes, request_id: str) -> Ask | Refusal:
        """Read, clean, count and class a request."""
        reading = self.reading(head, request_id)
        return reading.of(body) if isinstance(reading, Reading) else reading

    def reading(self, head: Head, request_id: str) -> Reading | Ask | Refusal:
        """Return what is to be done with a request's body, or the answer where there is none."""
        try:
            admitted = head.judged
            # Keys and configuration may be others than when the head came; with them the callers.
            if not isinstance(admitted, _Admitted) or admitted.callers is not self._callers:
                admitted = self._admit(head)
        except faults.Fault as fault:
            return fault.refusal
        serial = next(self._serials)
        if admitted.surface is Surface.MODELS:
            return _list_of_models(admitted, request_id, serial)
        config = admitted.config
        return Reading(
            request_id,
            admitted.surface,
            admitted.heeded,
            admitted.caller,
            self._lengths,
            config.limits,
            self._counts,
            serial,
        )

    def learn(self, ask: Ask, usage: Usage) -> None:
        """Correct the tokens per character, message or image from what the engine counted."""
        self._counts.learn(ask, usage)

    def estimate_error(self) -> float | None:
        """Return the tokens that late estimates of prompts missed, as a share of all."""
        return self._counts.estimate_error()

    def tokens_per_character(self, script: Script) -> float:
        """Return what has been learned of a kind of text."""
        return self._counts.tokens_per_character(script)

    def _admit(self, head: Head) -> _Admitted:
        """Judge everything but the body; raises `Fault`."""
        surface = surfaces.of_request(head.method, head.path)
        config = self._config
        if config is None:
            raise faults.Fault(_NOT_CONFIGURED)
        heeded = headers.heed(head.headers)
        told = heeded.told
        if told.get(b"content-encoding", b"identity").lower() != b"identity":
            raise faults.bad_request("Send the body without content-encoding.", status=415)
        if headers.SHIFTED in told and self._own_name in headers.shifted_by(heeded):
            raise faults.shift_loop(self._own_name)
        callers = self._callers
        return _Admitted(surface, config, heeded, callers.of(told, head.peer), callers)


def _model(asked: document.Document, models: Collection[str]) -> str | None:
    """Return the name that is asked for; as vLLM does, one may leave it open."""
    model = asked.get("model")
    if model is None:
        return None
    if type(model) is not str:
        raise faults.bad_request("model must be text.", "model")
    if model not in models:
        raise faults.unknown_model(
            f"The model {faults.shown(model, 128)} is not served here. Served: {', '.join(models)}."
        )
    return model


def _list_of_models(admitted: _Admitted, request_id: str, serial: int) -> Ask:
    return Ask(
        request_id=request_id,
        surface=Surface.MODELS,
        model=admitted.config.models[0],
        caller=admitted.caller,
        body=b"",
        headers=headers.for_engine(admitted.heeded, request_id),
        prompt_tokens=0,
        output_limit=0,
        serial=serial,
    )


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
