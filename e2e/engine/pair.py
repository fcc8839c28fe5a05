"""Sends requests to a prefill and a decode engine, and proves that the KV cache moved.

    python -m e2e.engine.pair http://PREFILL:8000 http://DECODE:8000

The two steps are what a gate does: the prefill engine computes the prompt and answers with
`kv_transfer_params`, the decode engine gets the same request with these and goes on from there.
The proof is the decode engine's own count of where prompt tokens came from.
"""

import argparse
import json
import random
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from e2e.engine import metrics
from e2e.engine.tiny_tokenizer import FIRST_WORD_ID, VOCABULARY

Body = Mapping[str, Any]

REQUEST_SECONDS = 60.0
COUNTED_SECONDS = 10.0

SOURCES = ("external_kv_transfer", "local_compute", "local_cache_hit")
BY_SOURCE = "vllm:prompt_tokens_by_source_total"

# What asks a prefill engine to keep the KV cache for another one. All names must be there.
REMOTE_DECODE: Body = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


@dataclass(frozen=True)
class Proof:
    """One request through a pair, and the same to one engine alone.

    Attributes:
        prompt_tokens: length of the prompt.
        text: what the pair answered.
        text_alone: what the prefill engine answered without a transfer.
        transfer: the `kv_transfer_params` that went from one to the other; a gate keeps them.
        by_source: by how much the decode engine's counters of prompt tokens rose.
    """

    prompt_tokens: int
    text: str
    text_alone: str
    transfer: Mapping[str, Any]
    by_source: Mapping[str, float]

    @property
    def moved_all(self) -> bool:
        """Whether the whole prompt came by transfer and the decode engine computed none of it."""
        return self.by_source == {
            "external_kv_transfer": self.prompt_tokens,
            "local_compute": 0,
            "local_cache_hit": 0,
        }


def complete(url: str, body: Body) -> dict[str, Any]:
    """Return the answer of an engine's `/v1/completions`.

    Raises:
        urllib.error.HTTPError: the engine refused or failed.
        OSError: no answer within `REQUEST_SECONDS`.
    """
    request = urllib.request.Request(
        f"{url}/v1/completions",
        json.dumps(dict(body)).encode(),
        {"Content-Type": "application/json", "X-Request-Id": str(uuid.uuid4())},
    )
    with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:
        answer: dict[str, Any] = json.load(response)
        return answer


def prefill(url: str, body: Body) -> Mapping[str, Any]:
    """Let an engine compute a prompt and return what another one needs to fetch it."""
    asked = {**body, "stream": False, "max_tokens": 1, "kv_transfer_params": REMOTE_DECODE}
    transfer = complete(url, asked)["kv_transfer_params"]
    if not transfer:
        raise ValueError(f"{url} gave no kv_transfer_params: is it a prefill engine?")
    return dict(transfer)


def prove(prefill_url: str, decode_url: str, model: str, prompt_tokens: int = 700) -> Proof:
    """Send one request of its own prompt through a pair and count where the tokens came from.

    No one else may use the decode engine meanwhile: its counters are compared before and after.
    """

    def both_steps(body: Body) -> tuple[dict[str, Any], Mapping[str, Any]]:
        transfer = prefill(prefill_url, body)
        return complete(decode_url, {**body, "kv_transfer_params": transfer}), transfer

    return _prove(both_steps, prefill_url, decode_url, model, prompt_tokens)


def prove_by_gate(
    gate_url: str, prefill_url: str, decode_url: str, model: str, prompt_tokens: int = 700
) -> Proof:
    """Send one request to a gate, as a client does, and count where the decode engine's came from.

    No one else may use the decode engine meanwhile: its counters are compared before and after.
    """
    return _prove(
        lambda body: (complete(gate_url, body), {}), prefill_url, decode_url, model, prompt_tokens
    )


def _prove(
    send: Callable[[Body], tuple[dict[str, Any], Mapping[str, Any]]],
    alone_url: str,
    decode_url: str,
    model: str,
    prompt_tokens: int,
) -> Proof:
    body = {
        "model": model,
        "prompt": fresh_prompt(prompt_tokens),
        "max_tokens": 16,
        "temperature": 0,
        "ignore_eos": True,
    }
    before = tokens_by_source(decode_url)
    answer, transfer = send(body)
    after = _counted(decode_url, sum(before.values()) + prompt_tokens)
    by_source = {source: after[source] - before[source] for source in SOURCES}
    alone = complete(alone_url, body)
    return Proof(prompt_tokens, _text(answer), _text(alone), transfer, by_source)


def _text(answer: Mapping[str, Any]) -> str:
    return str(answer["choices"][0]["text"])


def fresh_prompt(tokens: int) -> list[int]:
    """Return the ids of random words: no prefix cache has seen them.

    Of words only: after a prompt that ends amid a character vLLM repeats the prompt in its answer.
    """
    return random.choices(range(FIRST_WORD_ID, VOCABULARY), k=tokens)


def tokens_by_source(url: str) -> dict[str, float]:
    """Return an engine's prompt tokens by source; a source without a series has had none."""
    scraped = metrics.scrape(url)
    if scraped.value(BY_SOURCE) is None:
        raise ValueError(f"{url}/metrics has no {BY_SOURCE}: is it vLLM?")
    return {source: scraped.value(BY_SOURCE, source=source) or 0.0 for source in SOURCES}


def _counted(url: str, total: float) -> dict[str, float]:
    """Read the counters until a request is in them: vLLM counts it shortly after it answered."""
    deadline = time.monotonic() + COUNTED_SECONDS
    while True:
        counted = tokens_by_source(url)
        if sum(counted.values()) >= total or time.monotonic() > deadline:
            return counted
        time.sleep(0.25)


def main() -> None:
    """Prove three transfers, and that the answers are those of a single engine."""
    parser = argparse.ArgumentParser(description="Prove that the KV cache moves between engines.")
    parser.add_argument("prefill_url")
    parser.add_argument("decode_url")
    parser.add_argument("--model", default="tiny")
    arguments = parser.parse_args()
    proofs = [prove(**vars(arguments)) for _ in range(3)]
    for proof in proofs:
        print(f"{proof.prompt_tokens} prompt tokens: {proof.by_source}; {proof.text!r}")
    if not all(proof.moved_all for proof in proofs):
        sys.exit("the KV cache did not move: the decode engine computed prompt tokens itself")
    if any(proof.text != proof.text_alone for proof in proofs):
        sys.exit("the pair answers otherwise than one engine alone")


if __name__ == "__main__":
    main()
