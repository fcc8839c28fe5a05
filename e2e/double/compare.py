"""Asks two servers the same and tells the differences: the double against a real vLLM.

    python -m e2e.double.compare http://127.0.0.1:8000 http://127.0.0.1:8001 --model tiny

Both must run with the same flags and the tiny test model. Compared are status codes, the shapes of
JSON answers and of stream chunks, error texts, token counts, metric names with their labels and
buckets, and the accounting of KV: the size of the pool, the blocks of a running sequence, prefix
hits. Texts, ids and times are not compared. The requests are few and short.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any

from e2e.double import probes
from e2e.double.probes import Probe

TIMEOUT_SECONDS = 60.0
SETTLE_SECONDS = 0.1  # metrics lag a step or two behind
SAMPLE = re.compile(r"^(vllm:[a-z0-9_]+)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Labels whose values are words of vLLM; of others only the names are compared.
ENUMERATED = ("reason", "source", "finished_reason", "sleep_state", "stage", "le")
POOL_FIELDS = ("block_size", "num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency")
COUNTERS = (
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prompt_tokens_cached_total",
)

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass(frozen=True)
class Difference:
    """Something that two servers do differently."""

    what: str
    left: object
    right: object

    def __str__(self) -> str:
        return f"{self.what}: {self.left!r} against {self.right!r}"


@dataclass(frozen=True)
class Answer:
    """What came back: the parsed JSON, or the chunks of a stream."""

    status: int
    body: Any = None
    chunks: tuple[Any, ...] = ()
    is_ended: bool = True


@dataclass(frozen=True)
class Server:
    """One of the two."""

    url: str

    def ask(self, probe: Probe) -> Answer:
        """Send a request and read all of the answer."""
        connection, response = self.open(probe)
        try:
            return _read(response)
        finally:
            connection.close()

    def open(self, probe: Probe) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and return the answer unread."""
        place = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(
            place.hostname or "127.0.0.1", place.port, timeout=TIMEOUT_SECONDS
        )
        if probe.body is None and not probe.raw:
            connection.request("GET", probe.path)
        else:
            content = probe.raw or json.dumps(probe.body)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", probe.path, content.encode(), headers)
        return connection, connection.getresponse()

    def series(self) -> Series:
        """Return the samples of vLLM's metrics."""
        connection, response = self.open(Probe("metrics", "/metrics"))
        try:
            return parse(response.read().decode())
        finally:
            connection.close()


def compare(left: str, right: str, model: str) -> list[Difference]:
    """Return all differences between two servers of the same model and flags."""
    servers = Server(left), Server(right)
    pool = _pool(servers[0].series())
    block = int(pool.get("block_size", "16"))
    # First, as the first step of a pair keeps blocks for a while.
    found = compare_accounting(*servers, model=model, block=block)
    for probe in probes.probes(model, block):
        answers = [server.ask(probe) for server in servers]
        found += compare_answers(probe, *answers)
    return found + compare_metrics(servers[0].series(), servers[1].series())


# --- answers


def compare_answers(probe: Probe, left: Answer, right: Answer) -> list[Difference]:
    """Return the differences of two answers to one request."""
    pairs: list[tuple[str, object, object]] = [
        ("status", left.status, right.status),
        ("shape", shape(left.body), shape(right.body)),
        ("chunk shapes", _shapes(left.chunks), _shapes(right.chunks)),
        ("ends with [DONE]", left.is_ended, right.is_ended),
        ("token counts", _counts(left), _counts(right)),
        ("finish reasons", _finishes(left), _finishes(right)),
        ("error", _error(left.body), _error(right.body)),
    ]
    return [Difference(f"{probe.name}, {what}", a, b) for what, a, b in pairs if a != b]


def shape(value: object) -> object:
    """Return the form of a JSON value: keys and types, the first item for a list."""
    if isinstance(value, dict):
        return {key: shape(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, bool) or value is None:
        return type(value).__name__
    return "number" if isinstance(value, int | float) else "str"


def _shapes(chunks: tuple[Any, ...]) -> list[object]:
    seen: list[object] = []
    for chunk in chunks:
        form = shape(chunk)
        if form not in seen:
            seen.append(form)
    return seen


def _counts(answer: Answer) -> list[object]:
    bodies = [answer.body, *answer.chunks]
    usages = [body["usage"] for body in bodies if isinstance(body, dict) and body.get("usage")]
    counts = [(usage["prompt_tokens"], usage["completion_tokens"]) for usage in usages]
    is_counted = isinstance(answer.body, dict) and "count" in answer.body
    return [*counts, answer.body["count"]] if is_counted else list(counts)


def _finishes(answer: Answer) -> list[object]:
    bodies = [body for body in (answer.body, *answer.chunks) if isinstance(body, dict)]
    reasons = [c.get("finish_reason") for body in bodies for c in body.get("choices") or []]
    return [reason for reason in reasons if reason]


def _error(body: object) -> object:
    """Return the words of an error; of a schema's refusal, which are many, only where it is."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return error
    message = str(error.get("message"))
    if re.match(r"\d+ validation error", message):
        message = "validation error"
    return {**error, "message": message}


# --- metrics


def compare_metrics(left: Series, right: Series) -> list[Difference]:
    """Return the differences in names, labels, enumerated values and the size of the pool."""
    found = []
    forms = _forms(left), _forms(right)
    for name in sorted(forms[0].keys() | forms[1].keys()):
        a, b = forms[0].get(name), forms[1].get(name)
        if a != b:
            found.append(Difference(f"metric {name}", a, b))
    pools = _pool(left), _pool(right)
    for name in POOL_FIELDS:
        if pools[0].get(name) != pools[1].get(name):
            found.append(Difference(f"pool, {name}", pools[0].get(name), pools[1].get(name)))
    return found


def parse(text: str) -> Series:
    """Read vLLM's samples from the text format."""
    series: Series = {}
    for line in text.splitlines():
        if match := SAMPLE.match(line):
            labels = tuple(sorted(LABEL.findall(match[2] or "")))
            series[match[1], labels] = float(match[3])
    return series


def _forms(series: Series) -> dict[str, object]:
    forms: dict[str, tuple[set[str], set[tuple[str, str]]]] = {}
    for name, labels in series:
        names, values = forms.setdefault(name, (set(), set()))
        names.update(label for label, _ in labels)
        values.update(pair for pair in labels if pair[0] in ENUMERATED)
    return {name: (sorted(names), sorted(values)) for name, (names, values) in forms.items()}


def _pool(series: Series) -> dict[str, str]:
    infos = [dict(labels) for name, labels in series if name == "vllm:cache_config_info"]
    return infos[0] if infos else {}


def total(series: Series, name: str) -> float:
    """Return the sum of a metric over its labels."""
    return sum(value for (key, _), value in series.items() if key == name)


# --- KV accounting


def compare_accounting(left: Server, right: Server, *, model: str, block: int) -> list[Difference]:
    """Return the differences in the blocks of a running sequence and in what a prompt counts."""
    ledgers = [ledger(server, model, block) for server in (left, right)]
    return [
        Difference(f"accounting, {name}", ledgers[0][name], ledgers[1][name])
        for name in ledgers[0]
        if ledgers[0][name] != ledgers[1][name]
    ]


def ledger(server: Server, model: str, block: int) -> dict[str, object]:
    """Run one prompt of three blocks and a token twice, and return what was counted.

    The output stays within the fourth block, so the number of blocks is the same for all of it.
    """
    length, made = 3 * block + 1, block - 2
    start = time.time_ns() % 200
    prompt = [270 + (start + position) % 200 for position in range(length)]
    body = {"model": model, "prompt": prompt, "max_tokens": made, "stream": True}
    probe = Probe("ledger", "/v1/completions", {**body, "temperature": 0, "ignore_eos": True})
    before = server.series()
    blocks_seen: list[int] = []
    for _ in range(2):
        connection, response = server.open(probe)
        response.readline()
        blocks_seen.append(_blocks_in_use(server.series()))
        response.read()
        connection.close()
    time.sleep(SETTLE_SECONDS)
    after = server.series()
    counted = {name: total(after, name) - total(before, name) for name in COUNTERS}
    return {
        "blocks of one sequence": max(blocks_seen) - _blocks_in_use(before),
        "blocks after the end": _blocks_in_use(after) - _blocks_in_use(before),
        **counted,
    }


def _blocks_in_use(series: Series) -> int:
    usable = int(_pool(series).get("num_gpu_blocks", "1")) - 1
    return round(total(series, "vllm:kv_cache_usage_perc") * usable)


def _read(response: http.client.HTTPResponse) -> Answer:
    text = response.read().decode()
    if "event-stream" in (response.getheader("Content-Type") or ""):
        frames = [frame[6:] for frame in text.split("\n\n") if frame.startswith("data: ")]
        chunks = tuple(json.loads(frame) for frame in frames if frame != "[DONE]")
        return Answer(response.status, None, chunks, bool(frames) and frames[-1] == "[DONE]")
    try:
        return Answer(response.status, json.loads(text))
    except ValueError:
        return Answer(response.status, text or None)


def main() -> int:
    """Print the differences; code 1 where there are any."""
    parser = argparse.ArgumentParser(description="Tell how two vLLM servers differ.")
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    found = compare(args.left, args.right, args.model)
    for difference in found:
        print(difference)
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
