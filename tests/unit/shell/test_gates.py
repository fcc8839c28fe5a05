"""What the operator asks gates over the network: bounded in time and size, and never trusted."""

import asyncio

import pytest
from aiohttp import web

from tidegate.flow.ports import Configured, ReadFailed, Tried
from tidegate.shell.gates import PodGates


class Asking:
    """A gate at a port of this machine."""

    def __init__(self, port, address="127.0.0.1", seconds=1.0):
        self.gates = PodGates(port, seconds, seconds)
        self.pod = {"metadata": {"name": "gate-1"}, "status": {"podIP": address} if address else {}}

    async def configuration(self):
        try:
            return await self.gates.configuration(self.pod)
        finally:
            await self.gates.close()

    async def try_pair(self):
        try:
            return await self.gates.try_pair(self.pod, "r1")
        finally:
            await self.gates.close()


def answer(document, status=200):
    async def handler(request):
        return web.json_response(document, status=status)

    return handler


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"generation": 3, "valid": True, "error": None}, Configured(3)),
        ({"generation": 3, "valid": True, "error": "", "source": "disk"}, Configured(3)),
        ({"generation": 2, "valid": False, "error": "x: bad"}, Configured(2, "x: bad")),
        ({"generation": 2, "valid": False}, Configured(2, "it does not say why")),
        ({"generation": None, "valid": False, "error": "no ConfigMap"}, Configured(None)),
    ],
)
async def test_a_gate_tells_of_its_configuration(serve, said, told):
    assert await Asking(await serve(answer(said))).configuration() == told


async def test_a_pair_is_tried_by_one_request_of_its_revision(serve):
    asked = []

    async def handler(request):
        asked.append((request.method, request.path, await request.json()))
        return web.json_response({"ok": True, "prefill": "p-1", "decode": "d-1", "error": None})

    tried = await Asking(await serve(handler)).try_pair()

    assert tried == Tried(True, "p-1", "d-1")
    assert asked == [("POST", "/probe", {"prefill": "r1", "decode": "r1"})]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"ok": False, "prefill": "p", "decode": "d", "error": "reset"}, "reset"),
        ({"ok": False, "decode": "d", "status": 500, "error": "layout"}, "status 500: layout"),
        ({"ok": False, "prefill": None, "decode": "d", "error": None}, "no answer"),
        ({"ok": False, "decode": "d", "error": "x" * 10_000}, "x" * 500),
    ],
)
async def test_a_pair_that_does_not_work_says_why(serve, said, error):
    tried = await Asking(await serve(answer(said))).try_pair()

    assert not tried.is_ok
    assert tried.error == error


@pytest.mark.parametrize(
    "said",
    [[], {}, {"generation": "3", "valid": True}, {"generation": 3, "valid": "yes"}, "a" * 100_000],
)
async def test_an_answer_that_tells_nothing_is_none(serve, said):
    with pytest.raises(ReadFailed, match="gate-1"):
        await Asking(await serve(answer(said))).configuration()
    with pytest.raises(ReadFailed, match="gate-1"):
        await Asking(await serve(answer(said))).try_pair()


async def test_a_gate_that_had_no_pod_to_try_has_proven_nothing(serve):
    said = {"ok": False, "prefill": None, "decode": None, "error": "no ready pod of r1"}

    with pytest.raises(ReadFailed, match="no ready pod of r1"):
        await Asking(await serve(answer(said))).try_pair()


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_an_error_of_the_gate_is_no_answer(serve, status):
    with pytest.raises(ReadFailed, match=str(status)):
        await Asking(await serve(answer({"valid": True}, status))).configuration()


async def test_a_gate_that_does_not_answer_is_given_up_in_time(serve):
    async def hang(request):
        await asyncio.sleep(5)

    with pytest.raises(ReadFailed, match="TimeoutError"):
        await Asking(await serve(hang), seconds=0.1).configuration()


async def test_a_pod_without_an_address_and_a_closed_port_are_no_answer(serve):
    port = await serve(answer({}))
    with pytest.raises(ReadFailed, match="no address"):
        await Asking(port, address="").configuration()
    with pytest.raises(ReadFailed, match="gate-1"):
        await Asking(1).configuration()
