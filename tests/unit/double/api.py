"""Requests to a double, small and blocking."""

import http.client
import json
from urllib.parse import urlsplit

from e2e.double import compare


def ask(url, path, body=None, *, raw=None, headers=None, timeout=20):
    """Return status and JSON (or text) of one request."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=timeout)
    try:
        content = raw if raw is not None else None if body is None else json.dumps(body)
        given = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST" if content is not None else "GET", path, content, given)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text


def complete(url, prompt, **fields):
    """Return status and JSON of a greedy completion."""
    body = {"model": "tiny", "prompt": prompt, "temperature": 0, "ignore_eos": True, **fields}
    return ask(url, "/v1/completions", body)


def frames(url, path="/v1/completions", **fields):
    """Return the data frames of a streamed request."""
    body = {"model": "tiny", "temperature": 0, "ignore_eos": True, "stream": True, **fields}
    status, text = ask(url, path, body)
    assert status == 200
    return [line[6:] for line in text.split("\n\n") if line]


def metrics(url):
    """Return vLLM's samples by name and labels."""
    return compare.Server(url).series()


def value(series, name, **labels):
    """Return the sum of a metric's samples that have these labels."""
    wanted = set(labels.items())
    return sum(
        number
        for (key, pairs), number in series.items()
        if key == f"vllm:{name}" and wanted <= set(pairs)
    )
