"""What the tests of the gate's shell share."""

import pytest
from tests.unit.gate.shell.scripted_api import ScriptedApi

from tidegate.gate.shell.api_server import Account, ApiServer


@pytest.fixture
async def server():
    """An API server that answers by a script."""
    scripted = ScriptedApi()
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
async def api(server, tmp_path):
    """The gate's client of it."""
    (tmp_path / "token").write_text("first\n")
    client = ApiServer(Account(server.url, tmp_path), silence_seconds=0.5)
    yield client
    await client.close()
