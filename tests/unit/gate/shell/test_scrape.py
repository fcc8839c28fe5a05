"""Pods are read directly: bounded in time and size, and seldom."""

import asyncio
import time

import pytest
from aiohttp import web

from tidegate.gate.exchange import Pod
from tidegate.gate.shell.scrape import Scraper

RUNNING = 'vllm:num_requests_running{engine="0"} 3.0\n'
PAGE = RUNNING + 'vllm:kv_cache_usage_perc{engine="0"} 0.5\n'
HTML = "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"
OTHER_NAMES = PAGE.replace("vllm:", "engine_v9_")


def pod(port, name="engine-1", address="127.0.0.1"):
    return Pod(name, address, port, "unified", "aaaa", "s")


@pytest.fixture
async def serve():
    """Starts a server with one page at /metrics, and returns its port."""
    runners = []

    async def start(handler) -> int:
        application = web.Application()
        application.router.add_get("/metrics", handler)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner.addresses[0][1]

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def scraper():
    seen, results = [], []
    made = Scraper(lambda name, scrape: seen.append((name, scrape)), results.append, 0.3)
    made.seen, made.results = seen, results
    yield made
    await made.close()


def page(text, status=200, **headers):
    async def answer(request):
        return web.Response(text=text, status=status, headers=headers)

    return answer


async def test_a_pod_tells(serve, scraper):
    scrape, result = await scraper.read(pod(await serve(page(PAGE))))

    assert result == "good"
    assert scrape.running == 3
    assert abs(scrape.at - time.monotonic()) < 1


@pytest.mark.parametrize("usage", ["", "vllm:kv_cache_usage_perc NaN\n"])
async def test_a_page_without_the_usage_of_the_cache_is_told_apart(serve, scraper, usage):
    scrape, result = await scraper.read(pod(await serve(page(RUNNING + usage))))

    assert result == "incomplete"
    assert (scrape.running, scrape.kv_usage) == (3, None)


async def slow(request):
    await asyncio.sleep(5)


async def trickle(request):
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"# nothing\n")
        await asyncio.sleep(0.05)


async def endless(request):
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"# nothing\n" * 1000)


async def elsewhere(request):
    raise web.HTTPFound("/other")


async def binary(request):
    return web.Response(body=b"\xff\xfe")


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (slow, "timeout"),
        (trickle, "timeout"),
        (endless, "too-large"),
        (elsewhere, "status"),
        (binary, "unreadable"),
        (page("no", status=500), "status"),
        (page(HTML), "unreadable"),
        (page(OTHER_NAMES), "unreadable"),
        (page(""), "unreadable"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_no_answer(serve, scraper, handler, expected):
    started = time.monotonic()

    assert await scraper.read(pod(await serve(handler))) == (None, expected)
    assert time.monotonic() - started < 2


async def test_a_compressed_answer_is_not_inflated(serve, scraper):
    async def bomb(request):
        response = web.Response(text="# x\n" * 1_000_000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    assert await scraper.read(pod(await serve(bomb))) == (None, "unreadable")


async def test_a_pod_that_is_gone_is_unreachable(scraper):
    assert await scraper.read(pod(1)) == (None, "unreachable")


async def test_each_pod_is_read_again_and_again_until_it_is_followed_no_more(serve, scraper):
    port = await serve(page(PAGE))
    scraper.follow([pod(port, "a"), pod(port, "b")], gates=1)
    async with asyncio.timeout(5):
        while {name for name, _ in scraper.seen} != {"a", "b"}:
            await asyncio.sleep(0.02)
    scraper.follow([pod(port, "b")], gates=1)
    await asyncio.sleep(0.05)
    scraper.seen.clear()
    await asyncio.sleep(1.2)

    assert {name for name, _ in scraper.seen} == {"b"}
    assert len(scraper.seen) <= 3


async def test_a_pod_that_does_not_tell_is_told_of_by_nothing(scraper):
    scraper.follow([pod(1)], gates=1)
    async with asyncio.timeout(5):
        while not scraper.results:
            await asyncio.sleep(0.02)

    assert scraper.seen == []
    assert set(scraper.results) == {"unreachable"}


@pytest.mark.parametrize(
    ("pods", "gates", "seconds"), [(1, 1, 0.5), (1, 3, 1.5), (1, 9, 2), (200, 1, 4)]
)
async def test_more_gates_and_more_pods_read_less_often(scraper, pods, gates, seconds):
    scraper.follow([pod(1, f"p{i}") for i in range(pods)], gates)

    assert scraper.interval_seconds() == seconds
