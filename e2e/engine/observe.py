"""Writes down what a real engine answers, so that the engine double can be held against it.

    python -m e2e.engine.observe URL [--prefill URL --decode URL] [--output FILE]

Facts only: names, types and labels of metrics, the shape of answers, codes of refusals. What
changes from run to run (times, ids, counts, text) is replaced by its type.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.engine import metrics, pair
from e2e.engine.metrics import Metrics

Facts = dict[str, Any]

MODEL = "tiny"
PROMPT = " hello hello hello"
CACHE_INFO = "vllm:cache_config_info"

COMPLETION: Facts = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4, "temperature": 0}
CHAT: Facts = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hello"}],
    "max_tokens": 4,
    "temperature": 0,
}
STREAM: Facts = {"stream": True, "stream_options": {"include_usage": True}}

REFUSALS: Mapping[str, Facts] = {
    "unknown model": {**COMPLETION, "model": "absent"},
    "prompt longer than the context": {**COMPLETION, "prompt": " hello" * 4000},
    "max_tokens longer than the context": {**COMPLETION, "max_tokens": 99999},
    "max_tokens of zero": {**COMPLETION, "max_tokens": 0},
    "no prompt": {"model": MODEL, "max_tokens": 4},
    "kv_transfer_params is text": {**COMPLETION, "kv_transfer_params": "x"},
    "priority is text": {**COMPLETION, "priority": "high"},
}


def observe_engine(url: str) -> Facts:
    """Return the facts of one engine: answers, refusals, metrics. Sends about a dozen requests."""
    answers = {
        "GET /health": _answer("GET", f"{url}/health"),
        "GET /version": _answer("GET", f"{url}/version"),
        "GET /v1/models": _answer("GET", f"{url}/v1/models"),
        "POST /v1/completions": _answer("POST", f"{url}/v1/completions", COMPLETION),
        "POST /v1/chat/completions": _answer("POST", f"{url}/v1/chat/completions", CHAT),
        "POST /v1/completions, stream": _stream(f"{url}/v1/completions", COMPLETION),
        "POST /v1/chat/completions, stream": _stream(f"{url}/v1/chat/completions", CHAT),
        "POST /tokenize": _answer("POST", f"{url}/tokenize", {"model": MODEL, "prompt": PROMPT}),
    }
    refusals = {
        name: _answer("POST", f"{url}/v1/completions", body) for name, body in REFUSALS.items()
    }
    refusals["broken JSON"] = _answer("POST", f"{url}/v1/completions", b"{")
    scraped = metrics.scrape(url)
    _, _, version = _exchange("GET", f"{url}/version", None)
    return {
        "version": json.loads(version)["version"],
        "answers": answers,
        "refusals": refusals,
        "cache_config_info": scraped.labels(CACHE_INFO),
        "metrics": metric_facts(scraped),
    }


def observe_pair(prefill_url: str, decode_url: str) -> Facts:
    """Return the facts of a pair: the object that goes between them, and the metrics of each."""
    proof = pair.prove(prefill_url, decode_url, MODEL)
    return {
        "kv_transfer_params": shape(proof.transfer),
        "prefill_metrics": metric_facts(metrics.scrape(prefill_url)),
        "decode_metrics": metric_facts(metrics.scrape(decode_url)),
    }


def metric_facts(scraped: Metrics) -> Facts:
    """Return type, series and labels of each of the engine's own metrics, and of HTTP's."""
    return {
        family.name: {
            "type": family.type,
            "series": sorted({sample.name for sample in family.samples}),
            "labels": _label_values(family.samples),
        }
        for family in sorted(scraped.families, key=lambda family: family.name)
        if family.name.startswith(("vllm:", "http_")) and not family.name.endswith("_created")
    }


# Labels whose values are a closed set that others rely on; of the rest only the name matters.
_CLOSED_SETS = ("source", "finished_reason", "reason", "sleep_state", "status", "handler", "method")


def _label_values(samples: list[Any]) -> dict[str, list[str]]:
    values: dict[str, set[str]] = {}
    for sample in samples:
        for name, value in sample.labels.items():
            values.setdefault(name, set())
            if name in _CLOSED_SETS:
                values[name].add(value)
    return {name: sorted(found) for name, found in sorted(values.items())}


def shape(value: Any) -> Any:
    """Return a JSON value with every leaf replaced by the name of its type."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def _answer(method: str, url: str, body: Facts | bytes | None = None) -> Facts:
    """Return status, content type and shape; of an error also its text, for tests match it."""
    status, content_type, data = _exchange(method, url, body)
    facts: Facts = {"status": status, "content_type": content_type}
    if data:
        content = json.loads(data)
        facts["body"] = content if status >= 400 else shape(content)
    return facts


def _stream(url: str, body: Facts) -> Facts:
    """Return the shapes of a stream's first, second, last-but-one and last events."""
    status, content_type, data = _exchange("POST", url, {**body, **STREAM})
    events = [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line]
    shapes = [shape(json.loads(event)) for event in events[:-1]]
    return {
        "status": status,
        "content_type": content_type,
        "first": shapes[0],
        "next": shapes[1],
        "usage": shapes[-1],
        "end": events[-1],
    }


def _exchange(method: str, url: str, body: Facts | bytes | None) -> tuple[int, str, bytes]:
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=pair.REQUEST_SECONDS) as response:
            return response.status, response.headers.get("Content-Type", ""), response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("Content-Type", ""), error.read()


def main() -> None:
    """Observe the engines and write the facts as JSON."""
    parser = argparse.ArgumentParser(description="Write down what real engines answer.")
    parser.add_argument("url", help="a unified engine")
    parser.add_argument("--prefill")
    parser.add_argument("--decode")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    facts = {"engine": observe_engine(arguments.url)}
    if arguments.prefill and arguments.decode:
        facts["pair"] = observe_pair(arguments.prefill, arguments.decode)
    text = json.dumps(facts, indent=1, ensure_ascii=False) + "\n"
    if arguments.output:
        arguments.output.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
