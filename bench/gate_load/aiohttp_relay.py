"""The least that a relay in Python does with an ordinary framework: the baseline of the gate.

Usage: python aiohttp_relay.py PORT ENGINE_PORT
"""

import sys
from collections.abc import AsyncIterator

import uvloop
from aiohttp import ClientSession, TCPConnector, web

ENGINE = web.AppKey("engine", str)
SESSION = web.AppKey("session", ClientSession)


async def relay(request: web.Request) -> web.StreamResponse:
    """Pass a request on, and its answer back as it comes."""
    body = await request.read()
    headers = {"content-type": "application/json"}
    url = request.app[ENGINE] + request.path
    async with request.app[SESSION].post(url, data=body, headers=headers) as answer:
        response = web.StreamResponse(status=answer.status)
        response.content_type = answer.content_type
        if answer.content_length is not None:
            response.content_length = answer.content_length
        await response.prepare(request)
        async for data in answer.content.iter_any():
            await response.write(data)
        await response.write_eof()
        return response


async def session(app: web.Application) -> AsyncIterator[None]:
    """Keep connections to the engine without a limit."""
    async with ClientSession(connector=TCPConnector(limit=0)) as opened:
        app[SESSION] = opened
        yield


def main() -> None:
    """Serve until killed."""
    uvloop.install()
    app = web.Application()
    app[ENGINE] = f"http://127.0.0.1:{sys.argv[2]}"
    app.cleanup_ctx.append(session)
    app.router.add_post("/v1/completions", relay)
    quiet = {"print": None, "access_log": None}
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), backlog=2048, **quiet)


if __name__ == "__main__":
    main()
