"""The Lease is given up at the end of a process, and the end does not wait long for it."""

import asyncio

import pytest

from tidegate.shell.api_server import NoAnswer
from tidegate.shell.leadership import Leadership
from tidegate.shell.operate import Operator
from tidegate.shell.settings import OperatorSettings
from tidegate.shell.telemetry import Metrics


class Server:
    """Stores one Lease; a write that gives it up ends as `resigning` does."""

    def __init__(self, resigning):
        self.lease = None
        self.resigning = resigning

    async def call(self, method, path, *, body=None, verb=""):
        if body is not None:
            if body["spec"]["holderIdentity"] == "":
                await self.resigning()
            self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        return (200, self.lease) if self.lease else (404, {})


async def at_once():
    pass


async def never():
    await asyncio.Event().wait()


async def refuse():
    raise NoAnswer("away")


async def led(server):
    leadership = Leadership(server, "ns")
    await leadership.lead(at_once)
    return leadership


async def test_a_lease_that_is_given_up_has_no_holder():
    server = Server(at_once)
    leadership = await led(server)
    assert server.lease["spec"]["holderIdentity"] == leadership.identity
    await leadership.resign()
    assert server.lease["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("resigning", [never, refuse])
async def test_an_api_server_that_is_away_holds_up_no_end(resigning, monkeypatch, caplog):
    monkeypatch.setattr("tidegate.shell.leadership._RESIGN_SECONDS", 0.05)
    leadership = await led(Server(resigning))
    async with asyncio.timeout(2):
        await leadership.resign()
    assert not leadership.holds()
    assert "lease not given up" in caplog.text


async def test_the_lease_is_given_up_before_connections_are_closed(monkeypatch):
    done = []

    def note(name):
        async def act(*arguments):
            done.append(name)

        return act

    class Away:
        async def call(self, *arguments, **options):
            raise NoAnswer("away")

    class Serving:
        cleanup = note("closed")

    async def serve(*arguments):
        return Serving

    monkeypatch.setattr("tidegate.shell.operate.telemetry.serve", serve)
    monkeypatch.setattr(Leadership, "resign", note("resigned"))
    monkeypatch.setattr(Operator, "_lead", note("led"))
    await Operator(Away(), OperatorSettings(leaderElection=True), Metrics()).run()

    assert done == ["led", "resigned", "closed"]
