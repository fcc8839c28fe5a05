"""A relay with a fixed cap: what is beyond so many at once gets 429, the rest passes.

Usage: python -m bench.goodput.cap_relay PORT ENGINE_PORT CAP
"""

import asyncio
import sys

import uvloop
from aiohttp import web

from bench.gate_load import aiohttp_relay

PLACES = web.AppKey("places", asyncio.Semaphore)


async def relay(request: web.Request) -> web.StreamResponse:
    """Pass a request on if it is within the cap."""
    places = request.app[PLACES]
    if places.locked():
        return web.json_response(
            {"error": {"message": "busy", "type": "rate_limit_error", "code": 429}},
            status=429,
            headers={"Retry-After": "1"},
        )
    async with places:
        return await aiohttp_relay.relay(request)


def main() -> None:
    """Serve until killed; a client that leaves ends its request at the engine."""
    port, engine_port, cap = map(int, sys.argv[1:4])
    uvloop.install()
    app = web.Application()
    app[aiohttp_relay.ENGINE] = f"http://127.0.0.1:{engine_port}"
    app[PLACES] = asyncio.Semaphore(cap)
    app.cleanup_ctx.append(aiohttp_relay.session)
    app.router.add_post("/v1/completions", relay)
    web.run_app(
        app,
        host="127.0.0.1",
        port=port,
        backlog=2048,
        handler_cancellation=True,
        print=None,
        access_log=None,
    )


if __name__ == "__main__":
    main()
