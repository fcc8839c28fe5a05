from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Run on the loop that the gate runs on."""
    return {"uvloop": uvloop.new_event_loop}
