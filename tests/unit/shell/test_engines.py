"""What the operator reads from an engine over the network: bounded in time and size."""

import asyncio

import pytest
from aiohttp import web

from tidegate.flow.ports import ReadFailed
from tidegate.shell.engines import PodEngines

LINE = (
    'vllm:cache_config_info{block_size="16",cache_dtype="auto",gpu_memory_utilization="0.9",'
    'kv_cache_max_concurrency="4.0",kv_cache_memory_bytes="None",kv_cache_size_tokens="8192",'
    'num_gpu_blocks="512"} 1.0\n'
)


async def ask(port, address="127.0.0.1", seconds=1.0):
    engines = PodEngines(port, seconds)
    pod = {"metadata": {"name": "engine-1"}, "status": {"podIP": address} if address else {}}
    try:
        return await engines.cache_config(pod)
    finally:
        await engines.close()


def page(text, status=200):
    async def answer(request):
        return web.Response(text=text, status=status)

    return answer


async def test_an_engine_tells_of_its_cache(serve):
    told = await ask(await serve(page("# a comment\n" + LINE)))
    assert (told.blocks, told.size_tokens) == (512, 8192)


async def test_what_comes_before_the_bound_is_read(serve):
    told = await ask(await serve(page(LINE + "x" * 8_000_000)))
    assert told.blocks == 512


@pytest.mark.parametrize(
    "answer",
    [page(""), page("<html>"), page(LINE, 500), page("x" * 8_000_000 + "\n" + LINE)],
    ids=["empty", "no metrics", "500", "too long"],
)
async def test_anything_else_is_no_answer(serve, answer):
    with pytest.raises(ReadFailed, match="engine-1"):
        await ask(await serve(answer))


async def test_a_redirect_is_not_followed(serve):
    async def elsewhere(request):
        raise web.HTTPFound("http://127.0.0.1:9/metrics")

    with pytest.raises(ReadFailed):
        await ask(await serve(elsewhere))


async def test_a_slow_engine_holds_up_nothing(serve):
    async def drip(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(100):
            await response.write(b"#\n")
            await asyncio.sleep(0.05)
        return response

    begun = asyncio.get_running_loop().time()
    with pytest.raises(ReadFailed, match="TimeoutError"):
        await ask(await serve(drip), seconds=0.3)
    assert asyncio.get_running_loop().time() - begun < 2


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", None])
async def test_an_engine_that_is_not_there_is_no_answer(address):
    with pytest.raises(ReadFailed, match="engine-1"):
        await ask(9, address)
