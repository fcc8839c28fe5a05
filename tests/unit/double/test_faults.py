"""Faults that come and go in a running engine, and what its KV pool remembers."""

import http.client
import json
from urllib.parse import urlsplit

import pytest
from e2e.double import faults
from e2e.double.process import Double

from .api import ask, complete, metrics, value
from .conftest import FLAGS


@pytest.fixture(scope="module")
def engine(model):
    with Double(model, *FLAGS) as running:
        yield running.wait_healthy()


@pytest.fixture(autouse=True)
def _well_again(engine):
    yield
    assert put(engine)[0] == 200


def put(engine, /, **told):
    """Set the faults, and return status and JSON."""
    place = urlsplit(engine.url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=20)
    try:
        connection.request(
            "PUT", "/double/faults", json.dumps(told), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def streamed(engine, seconds=20):
    """Return all that came of a stream before it ended or broke, and whether it broke."""
    place = urlsplit(engine.url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=seconds)
    body = {"model": "tiny", "prompt": " hello", "max_tokens": 20, "stream": True}
    got = b""
    try:
        connection.request(
            "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        while piece := response.read1():
            got += piece
        return got, False
    except (OSError, http.client.HTTPException, ValueError):
        return got, True
    finally:
        connection.close()


@pytest.mark.parametrize("fault", faults.AMID_A_STREAM)
def test_a_stream_begins_well_and_breaks(engine, fault):
    put(engine, answers=fault)

    got, broke = streamed(engine, seconds=1)

    assert got.count(b"data: {") >= faults.CHUNKS_BEFORE
    assert broke == (fault != "death")
    assert (b'"error"' in got) == (fault == "death")


def test_what_broke_gives_its_blocks_back_and_the_next_stream_is_whole(engine):
    put(engine, answers="stall")
    streamed(engine, seconds=0.5)
    put(engine)

    got, broke = streamed(engine)

    assert not broke
    assert got.endswith(b"data: [DONE]\n\n")
    assert ask(engine.url, "/double/pool")[1]["open"] == 0


@pytest.mark.parametrize(("fault", "status"), [("status", 500), ("html", 200), ("abort", 200)])
def test_something_else_comes_in_place_of_an_answer(engine, fault, status):
    put(engine, answers=fault)

    told, body = complete(engine.url, " hello")

    assert told == status
    assert "length" not in json.dumps(body)


def test_a_hanging_engine_answers_nothing_but_its_probes(engine):
    put(engine, answers="hang")

    with pytest.raises(TimeoutError):
        ask(engine.url, "/v1/completions", {"model": "tiny", "prompt": "a"}, timeout=0.5)

    assert engine.health() == 200


PAGES = {"gone": 404, "status": 500, "html": 200, "huge": 200, "foreign": 200, "nan": 200}


@pytest.mark.parametrize(("fault", "status"), PAGES.items())
def test_a_metrics_page_without_a_number_that_can_be_used(engine, fault, status):
    put(engine, metrics=fault)

    told, page = ask(engine.url, "/metrics")

    assert told == status
    samples = [line for line in str(page).splitlines() if line.startswith("vllm:")]
    assert all(line.endswith(" NaN") for line in samples)


def test_a_slow_metrics_page_holds_up_nothing_else(engine):
    put(engine, metrics="slow")

    with pytest.raises(TimeoutError):
        ask(engine.url, "/metrics", timeout=0.5)

    assert complete(engine.url, " hello", max_tokens=2)[0] == 200


@pytest.mark.parametrize("told", [{"answers": "dance"}, {"metrics": "hang"}, {"probes": ""}])
def test_a_fault_that_is_not_known_is_refused_with_those_that_are(engine, told):
    status, body = put(engine, **told)

    assert status == 400
    assert "known" in body["error"]["message"] or "may be" in body["error"]["message"]


def test_the_pool_remembers_its_peak_and_that_it_was_too_small(model):
    flags = (*FLAGS, "--num-gpu-blocks-override", "9", "--max-model-len", "256")
    with Double(model, *flags) as small:
        small.wait_healthy()
        complete(small.url, " hello" * 60, max_tokens=2)
        calm = ask(small.url, "/double/pool")[1]
        # two answers that together need more than the pool has
        complete(small.url, " world" * 33, max_tokens=150, n=2, temperature=1)
        crowded = ask(small.url, "/double/pool")[1]
        preempted = value(metrics(small.url), "num_preemptions_total")

    assert (calm["blocks"], calm["peakBlocks"], calm["shortages"]) == (8, 2, 0)
    assert crowded["peakBlocks"] == 8
    assert crowded["shortages"] > 0
    assert crowded["preemptions"] == preempted > 0
