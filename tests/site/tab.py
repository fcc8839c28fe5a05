"""A tab of a headless Chromium, driven over its own protocol: go, run a script, wait."""

import asyncio
import contextlib
import json
import re

import aiohttp

WAIT_SECONDS = 240
"""How long a page may take to show what is waited for; a loaded machine is slow."""


class Tab:
    """One page of a browser."""

    def __init__(self, socket):
        self._socket = socket
        self._calls = 0

    async def call(self, method, **parameters):
        """Send a command and return what it answers; events in between are of no interest."""
        answer = await self._answer(method, parameters)
        assert "error" not in answer, answer
        return answer["result"]

    async def _answer(self, method, parameters):
        self._calls += 1
        await self._socket.send_json({"id": self._calls, "method": method, "params": parameters})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == self._calls:
                return answer

    async def go(self, url):
        """Open a page and wait until it is there."""
        await self.call("Page.navigate", url=url)
        await self.until(f"document.readyState === 'complete' && location.href === {url!r}")

    async def run(self, script):
        """Return the value of an expression in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, condition):
        """Wait until an expression is true, and return its value."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while not (value := await self._try(condition)):
                    await asyncio.sleep(0.05)
                return value
        raise AssertionError(
            f"never true: {condition}; the page is {await self.run('location.href')}"
        )

    async def _try(self, condition):
        """Return the value of an expression; None while the page is being replaced."""
        asked = {"expression": condition, "returnByValue": True}
        result = (await self._answer("Runtime.evaluate", asked)).get("result", {})
        return None if "exceptionDetails" in result else result.get("result", {}).get("value")

    async def width(self, pixels):
        """Have the window as wide as this."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )


@contextlib.asynccontextmanager
async def opened(browser, profile):
    """Start a browser with one empty tab, and end it afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
        *(f"--user-data-dir={profile}", "about:blank"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            port = await _port(process.stderr)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = json.loads(await answer.text())
            (page,) = (tab for tab in tabs if tab["type"] == "page")
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        await process.wait()


async def _port(stream):
    async for line in stream:
        if found := re.search(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line):
            return int(found[1])
    raise AssertionError("the browser ended")
