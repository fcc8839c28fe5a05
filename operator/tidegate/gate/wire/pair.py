"""The bodies of a pair's two steps, as vLLM's NixlConnector wants them. Pure.

The prefill engine computes the prompt and one token, keeps the KV cache and says where; the
decode engine gets the client's request with that answer, word for word, and fetches it.
"""

from dataclasses import replace
from typing import Any, Final

import orjson

from tidegate.gate.exchange import Ask
from tidegate.gate.values import value_class

_REMOTE_DECODE: Final = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""Asks a prefill engine to keep the KV cache for another one; all names must be there."""

_ANSWER_ONLY: Final = (
    "stream_options",
    "min_tokens",
    "min_completion_tokens",
    "n",
    "best_of",
    "logprobs",
    "top_logprobs",
    "prompt_logprobs",
    "echo",
)
"""What shapes an answer that nobody reads, or may not stand beside `max_tokens: 1`."""


class NoTransfer(Exception):
    """The prefill engine did not say where its KV cache is."""


def first_body(body: bytes) -> bytes:
    """Make the prefill engine's body: never a stream, which would lose the parameters."""
    asked: dict[str, Any] = orjson.loads(body)
    for name in _ANSWER_ONLY:
        asked.pop(name, None)
    asked |= {"stream": False, "max_tokens": 1, "kv_transfer_params": _REMOTE_DECODE}
    if "max_completion_tokens" in asked:
        asked["max_completion_tokens"] = 1
    return orjson.dumps(asked)


@value_class
class FirstStep:
    """Makes a prefill engine's request of a client's, here or in another process: a `Reading`.

    `ask` is the client's request, which needs no body here.
    """

    ask: Ask

    def of(self, body: bytes) -> Ask:
        """Return it with the body of the first step."""
        return replace(self.ask, body=first_body(body))


def second_body(body: bytes, answer: bytes) -> bytes:
    """Make the decode engine's body from the client's and the prefill engine's answer.

    Raises:
        NoTransfer: the answer has no parameters, or was ended by an engine that stops.
    """
    try:
        said = orjson.loads(answer)
    except orjson.JSONDecodeError:
        raise NoTransfer("the prefill engine's answer is not JSON") from None
    transfer = said.get("kv_transfer_params") if isinstance(said, dict) else None
    if not isinstance(transfer, dict) or not transfer:
        raise NoTransfer("the prefill engine gave no `kv_transfer_params`")
    opened = body.rstrip().removesuffix(b"}").rstrip()
    comma = b"" if opened.endswith(b"{") else b","
    return b'%b%b"kv_transfer_params":%b}' % (opened, comma, orjson.dumps(transfer))
