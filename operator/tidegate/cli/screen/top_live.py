"""The live screen: it is taken, redrawn at each read and each change of size, and given back."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live

from tidegate.cli.cluster.denied import Denied
from tidegate.cli.screen import top_view
from tidegate.errors import Invalid

Read = Callable[[], Awaitable[Mapping[str, Any]]]
_QUIT = b"qQ\x03\x04"
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def show(read: Read, first: Mapping[str, Any], interval_seconds: float) -> None:
    """Show documents until the user has seen enough: by q, ctrl-c or a signal to end."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    view = top_view.now(first)
    console = Console(highlight=False, emoji=False)
    with (
        _signals(loop, ended),
        _keys(loop, ended),
        Live(view, console=console, screen=True, auto_refresh=False) as live,
    ):
        live.refresh()
        with _resizing(loop, live.refresh):
            while not await _passes(ended, interval_seconds):
                view = await _next(read, view, ended)
                live.update(view, refresh=True)


async def _next(read: Read, shown: top_view.View, ended: asyncio.Event) -> top_view.View:
    """Return the next screen; the old one, with the trouble, where there is nothing newer."""
    reading = asyncio.ensure_future(read())
    ending = asyncio.ensure_future(ended.wait())
    await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
    ending.cancel()
    if not reading.done():
        reading.cancel()
        return shown
    try:
        return top_view.now(reading.result())
    except Denied as error:
        return top_view.now(shown.document, error.message, shown.at)
    except Invalid as error:
        return top_view.now(shown.document, str(error), shown.at)


async def _passes(ended: asyncio.Event, seconds: float) -> bool:
    """Wait; tell whether the end came meanwhile."""
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    return True


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> Iterator[None]:
    for number in _ENDINGS:
        loop.add_signal_handler(number, ended.set)
    try:
        yield
    finally:
        for number in _ENDINGS:
            loop.remove_signal_handler(number)


@contextmanager
def _resizing(loop: asyncio.AbstractEventLoop, refresh: Callable[[], None]) -> Iterator[None]:
    loop.add_signal_handler(signal.SIGWINCH, refresh)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def _keys(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> Iterator[None]:
    """Read single keys without showing them; the terminal is as before afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    import os
    import termios
    import tty

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def pressed() -> None:
        keys = os.read(terminal, 64)
        if not keys or any(key in _QUIT for key in keys):
            ended.set()

    try:
        tty.setcbreak(terminal)
        loop.add_reader(terminal, pressed)
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
