"""The logs of engines: one that is empty is told from one that could not be read."""

import pytest

from tidegate.flow.ports import ReadFailed
from tidegate.shell.api_server import NoAnswer
from tidegate.shell.cluster import KubernetesCluster


class Server:
    """Answers every call alike."""

    def __init__(self, status, answer):
        self.status, self.answer = status, answer
        self.calls = []

    async def call(self, method, path, **call):
        self.calls.append((path, call))
        if self.status is None:
            raise NoAnswer("silent")
        return self.status, self.answer


def cluster(server):
    return KubernetesCluster(server, lambda ref: None)


async def ended(server):
    return await cluster(server).pod_log("ns", "p", previous=True, tail_lines=400)


async def running(server):
    return await cluster(server).start_of_log("ns", "p", 1024)


BOTH = pytest.mark.parametrize("read", [ended, running])


@BOTH
async def test_a_log_is_returned_as_it_is(read):
    assert await read(Server(200, "one\ntwo\n")) == "one\ntwo\n"


@BOTH
@pytest.mark.parametrize("status", [400, 404])
async def test_a_container_that_has_none_has_an_empty_one(read, status):
    assert await read(Server(status, {"message": "previous container not found"})) == ""


@BOTH
@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, None])
async def test_one_that_cannot_be_read_now_is_not_taken_for_an_empty_one(read, status):
    with pytest.raises(ReadFailed):
        await read(Server(status, {"message": "dial tcp: connection refused"}))


@BOTH
async def test_a_kubelet_that_does_not_answer_is_not_waited_for_long(read):
    server = Server(200, "")
    await read(server)
    [(path, call)] = server.calls
    assert path == "/api/v1/namespaces/ns/pods/p/log"
    assert call["query"]["container"] == "engine"
    assert call["seconds"] <= 5
