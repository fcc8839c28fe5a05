"""Asks an engine how many tokens a very long prompt has, before room is kept for it.

An estimate from characters is off by a tenth or two, which for most prompts is a block or two and
for a very long one half a pod. The engine's own tokenizer is exact and takes a small part of the
time that the prompt will take to prefill. Bounded in number and time; where there is no answer the
estimate stays.
"""

import re
from collections import OrderedDict
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from tidegate.api.gate_config import GateConfig
from tidegate.gate.core import offers
from tidegate.gate.exchange import Ask, Outcome, Pod, Surface
from tidegate.gate.wire.answer import Whole
from tidegate.gate.wire.patience import Patience
from tidegate.gate.wire.sending import Exchange
from tidegate.gate.wire.wiring import Wiring

LONG_PROMPT_TOKENS: Final = 16 * 1024
"""An estimate from which on it is asked: a prefill of half a second and more."""
COUNT_SECONDS: Final = 0.5
"""For the answer; 100,000 tokens take a fast tokenizer a tenth of a second."""
MOST_AT_ONCE: Final = 2
"""Engines tokenize beside their own work: a flood of long prompts must not stop it."""
_REMEMBERED: Final = 64
_SURFACES: Final = (Surface.COMPLETIONS, Surface.CHAT)
_COUNT: Final = re.compile(rb'"count":\s*(\d{1,12})')
"""vLLM tells it first; the ids follow, which nobody needs."""


class ExactCount:
    """Counts of late long prompts, and how many are asked for now."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, int] = OrderedDict()
        self._asked = 0

    async def of(self, ask: Ask, wiring: Wiring) -> Ask:
        """Return the request with its exact count, or as it was."""
        if not _is_worth_it(ask):
            return ask
        key = blake2b(ask.body, digest_size=16).digest()
        count = self._known.get(key)
        if count is None and self._asked < MOST_AT_ONCE:
            pod = _quietest(ask, wiring)
            if pod is not None:
                self._asked += 1
                try:
                    count = await _ask(ask, pod, wiring)
                finally:
                    self._asked -= 1
        if count is None:
            return ask
        self._keep(key, count)
        return replace(ask, prompt_tokens=count, fewest_tokens=count)

    def _keep(self, key: bytes, count: int) -> None:
        self._known[key] = count
        self._known.move_to_end(key)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def _is_worth_it(ask: Ask) -> bool:
    """Tell whether a prompt is one very long text or chat; no tokenizer counts images."""
    is_one_text = ask.characters > 0 and not ask.images and ask.samples == 1
    return is_one_text and ask.prompt_tokens >= LONG_PROMPT_TOKENS and ask.surface in _SURFACES


def _quietest(ask: Ask, wiring: Wiring) -> Pod | None:
    """Return the pod with the fewest requests of this gate, of those that know the model."""
    config = wiring.config()
    view = wiring.admissions.view(wiring.loop.time(), wiring.wall())
    able = [
        one
        for one in view.pods
        if not one.ejected and not one.pod.terminating and _knows(config, one.pod, ask)
    ]
    return min(able, key=lambda one: one.seated).pod if able else None


def _knows(config: GateConfig | None, pod: Pod, ask: Ask) -> bool:
    if config is None or not ask.names_model:
        return True
    return ask.model in offers.serves(config, pod.revision).models


async def _ask(ask: Ask, pod: Pod, wiring: Wiring) -> int | None:
    exchange = Exchange(wiring, ask.request_id, Surface.TOKENIZE.value, ask.headers)
    until = wiring.loop.time() + COUNT_SECONDS
    has = Patience(COUNT_SECONDS, COUNT_SECONDS, until)
    try:
        end, answer = await exchange.send(
            (pod.address, pod.port),
            ask.body,
            COUNT_SECONDS,
            lambda to: Whole(to, wiring.sweep, wiring.loop, has),
        )
    finally:
        exchange.abort()
    if answer is None or end.outcome is not Outcome.FINISHED:
        return None
    found = _COUNT.search(answer.body)
    return int(found[1]) if found else None
