"""A real HTTP server on loopback, for what the operator asks over the network."""

import pytest
from aiohttp import web


@pytest.fixture
async def serve():
    """Starts a server that answers every path by one handler, and returns its port."""
    runners = []

    async def start(handler) -> int:
        application = web.Application()
        application.router.add_route("*", "/{path}", handler)
        runner = web.AppRunner(application, access_log=None)
        runners.append(runner)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return site._server.sockets[0].getsockname()[1]

    yield start
    for runner in runners:
        await runner.cleanup()
