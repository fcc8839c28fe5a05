"""One token through a pair, or through one pod: whether they can serve, before anyone asks.

Engines that cannot exchange their KV cache are ready in Kubernetes and answer `/health`; only a
request shows it.
"""

import secrets
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from tidegate.api.gate_config import Deadlines, GateConfig
from tidegate.gate.core import offers
from tidegate.gate.exchange import Outcome, Pod, Surface
from tidegate.gate.wire import pair
from tidegate.gate.wire.answer import Whole
from tidegate.gate.wire.heads import Headers
from tidegate.gate.wire.patience import Patience
from tidegate.gate.wire.sending import Exchange
from tidegate.gate.wire.wiring import Wiring

PROBE_SECONDS: Final = 30.0
"""For the whole; an engine's own handshake with a lost peer takes 5 s to fail."""

_PROMPT: Final = "The tide comes in, the tide goes out."
_HEADERS: Final[Headers] = ((b"content-type", b"application/json"),)
_TOLD_BYTES: Final = 300

Step = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found.

    Attributes:
        is_ok: whether a token came.
        step: the step that was the last; `decode` where there is but one.
        outcome: how it ended.
        message: what was said, where it is not ok.
        seconds: for all of it.
    """

    is_ok: bool
    step: Step
    outcome: Outcome
    message: str
    seconds: float


async def probe(wiring: Wiring, prefill: Pod | None, decode: Pod) -> Probed:
    """Send the request, in two steps where there is a prefill pod."""
    config = wiring.config()
    begun_at = wiring.loop.time()
    exchange = Exchange(
        wiring, f"probe-{secrets.token_hex(8)}", Surface.COMPLETIONS.value, _HEADERS
    )

    async def step(pod: Pod, body: bytes) -> tuple[Outcome, str, bytes]:
        until = begun_at + PROBE_SECONDS
        patience = Patience(PROBE_SECONDS, PROBE_SECONDS, until)
        connect_seconds = config.deadlines.connect if config else Deadlines().connect
        end, answer = await exchange.send(
            (pod.address, pod.port),
            body,
            connect_seconds,
            lambda to: Whole(to, wiring.sweep, wiring.loop, patience),
        )
        came = answer.body if answer else b""
        said = came[:_TOLD_BYTES].decode("utf-8", "replace")
        return end.outcome, f"{end.message} {said}".strip(), came

    def probed(at: Step, outcome: Outcome, message: str) -> Probed:
        is_ok = at == "decode" and outcome is Outcome.FINISHED
        seconds = wiring.loop.time() - begun_at
        return Probed(is_ok, at, outcome, "" if is_ok else message, seconds)

    body = _asked(config, decode)
    try:
        if prefill is not None:
            first = pair.first_body(_asked(config, prefill))
            outcome, message, came = await step(prefill, first)
            if outcome is not Outcome.FINISHED:
                return probed("prefill", outcome, message)
            try:
                body = pair.second_body(body, came)
            except pair.NoTransfer as error:
                return probed("prefill", Outcome.ENGINE_FAILED, str(error))
        outcome, message, _ = await step(decode, body)
        return probed("decode", outcome, message)
    finally:
        exchange.abort()


def _asked(config: GateConfig | None, of: Pod) -> bytes:
    """Return the request, by a name that the pod's own revision knows."""
    model = offers.serves(config, of.revision).models[0] if config else ""
    return orjson.dumps({"model": model, "prompt": _PROMPT, "max_tokens": 1, "temperature": 0})
