"""A cache kept by list and watch."""

import asyncio
import contextlib

import pytest

from tidegate.flow.ports import Ref
from tidegate.shell.api_server import NoAnswer
from tidegate.shell.cache import Cache
from tidegate.shell.resources import BY_KIND


def service(name, version, deployment="d", namespace="ns"):
    labels = {"tidegate.io/deployment": deployment} if deployment else {}
    return {
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "resourceVersion": str(version),
            "labels": labels,
        },
    }


def event(kind, document):
    return {"type": kind, "object": document}


EXPIRED = event("ERROR", {"code": 410, "message": "too old"})


class Server:
    """Answers lists and watches from a script; a watch that has no more events hangs."""

    def __init__(self, lists, watches):
        self.lists = list(lists)
        self.watches = list(watches)
        self.watched_from = []
        self.list_calls = 0

    async def call(self, method, path, *, query, verb):
        self.list_calls += 1
        version, items = self.lists.pop(0)
        return 200, {"metadata": {"resourceVersion": str(version)}, "items": items}

    async def lines(self, path, query, silence_seconds):
        self.watched_from.append(query["resourceVersion"])
        if not self.watches:
            await asyncio.Event().wait()
        for item in self.watches.pop(0):
            if isinstance(item, Exception):
                raise item
            yield item


async def play(server, keep=lambda document: document):
    """Run a new cache until the server's script is through."""
    changed = []
    cache = Cache(BY_KIND["Service"], keep, lambda d: changed.append(d["metadata"]["name"]))
    await play_on(cache, server)
    return cache, changed


async def play_on(cache, server):
    task = asyncio.create_task(cache.run(server))
    wanted = len(server.watches) + 1
    async with asyncio.timeout(10):
        while len(server.watched_from) < wanted:
            await asyncio.sleep(0.005)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def names(cache):
    return sorted(document["metadata"]["name"] for document in cache.all())


async def test_it_holds_what_the_list_and_the_watch_told():
    server = Server(
        [(5, [service("a", 1), service("b", 2)])],
        [
            [
                event("MODIFIED", service("a", 6)),
                event("DELETED", service("b", 7)),
                event("ADDED", service("c", 8)),
            ]
        ],
    )
    cache, changed = await play(server)

    assert names(cache) == ["a", "c"]
    assert cache.get("ns", "a")["metadata"]["resourceVersion"] == "6"
    assert changed == ["a", "b", "a", "b", "c"]


async def test_a_watch_that_ends_goes_on_from_the_last_version_without_a_list():
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    server = Server([(5, [])], [[event("ADDED", service("a", 6)), bookmark], []])
    await play(server)

    assert server.watched_from == ["5", "9", "9"]
    assert server.list_calls == 1


async def test_after_a_gap_what_vanished_inside_of_it_is_forgotten():
    server = Server([(5, [service("a", 1), service("b", 2)]), (20, [service("b", 2)])], [[EXPIRED]])
    cache, changed = await play(server)

    assert names(cache) == ["b"]
    assert changed[-1] == "a"


@pytest.mark.parametrize("fault", [NoAnswer("reset"), NoAnswer("silent")])
async def test_a_broken_watch_is_taken_up_again(fault, monkeypatch):
    monkeypatch.setattr("tidegate.shell.cache._RETRY_SECONDS", (0.01, 0.02))
    server = Server(
        [(5, [])], [[event("ADDED", service("a", 6)), fault], [event("ADDED", service("b", 7))]]
    )
    cache, _ = await play(server)

    assert names(cache) == ["a", "b"]
    assert server.watched_from == ["5", "6", "7"], "from the last version seen, not from the first"
    assert server.list_calls == 1


async def test_a_connection_that_ends_at_times_is_no_warning(monkeypatch, caplog):
    monkeypatch.setattr("tidegate.shell.cache._RETRY_SECONDS", (0.01, 0.02))
    caplog.set_level("INFO")
    end = NoAnswer("SocketTimeoutError: silent")
    told = [[event("ADDED", service("a", at)), end] for at in (6, 7)]
    await play(Server([(5, [])], told))

    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert "is opened again" in caplog.text


async def test_a_watch_that_tells_nothing_and_breaks_again_is_a_warning(monkeypatch, caplog):
    monkeypatch.setattr("tidegate.shell.cache._RETRY_SECONDS", (0.01, 0.02))
    caplog.set_level("INFO")
    end = NoAnswer("ClientConnectorError: refused")
    await play(Server([(5, [])], [[end], [end]]))

    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


async def test_an_answer_that_comes_after_the_deletion_brings_nothing_back():
    server = Server([(5, [service("a", 5)])], [[event("DELETED", service("a", 7))]])
    cache, _ = await play(server)
    cache.offer(service("a", 6))
    assert names(cache) == []

    cache.offer(service("a", 8))
    assert names(cache) == ["a"], "that is a new one"


@pytest.mark.parametrize(("deleted_at", "left"), [(6, ["a"]), (9, [])])
async def test_a_deletion_ends_only_what_is_no_newer_than_it(deleted_at, left):
    server = Server([(5, [service("a", 5)])], [[event("DELETED", service("a", deleted_at))]])
    held = service("a", 8)  # the answer to our own write, ahead of the watch
    plain = server.lines

    async def lines(*arguments):
        cache.offer(held)
        async for item in plain(*arguments):
            yield item

    server.lines = lines
    cache = Cache(BY_KIND["Service"], lambda document: document, lambda document: None)
    await play_on(cache, server)

    assert names(cache) == left


async def test_a_list_drops_nothing_that_was_made_after_it():
    server = Server([(5, [])], [])
    cache = Cache(BY_KIND["Service"], lambda document: document, lambda document: None)
    cache.offer(service("made since", 6))
    cache.offer(service("gone by then", 4))
    await play_on(cache, server)

    assert names(cache) == ["made since"]


async def test_an_older_object_never_replaces_a_newer_one():
    cache = Cache(BY_KIND["Service"], lambda d: d, lambda d: None)
    cache.offer(service("a", 10))
    cache.offer(service("a", 9))

    assert cache.get("ns", "a")["metadata"]["resourceVersion"] == "10"


async def test_objects_are_found_by_their_deployment_in_its_namespace():
    cache = Cache(BY_KIND["Service"], lambda d: d, lambda d: None)
    for document in (
        service("a", 1),
        service("b", 2, namespace="other"),
        service("c", 3, deployment=None),
    ):
        cache.offer(document)

    assert [d["metadata"]["name"] for d in cache.of(Ref("ns", "d"))] == ["a"]
    cache.offer(service("a", 4, deployment="e"))
    assert cache.of(Ref("ns", "d")) == []
    assert len(cache.of(Ref("ns", "e"))) == 1


async def test_what_is_not_to_be_kept_is_dropped():
    cache = Cache(
        BY_KIND["Service"],
        lambda d: d if d["metadata"]["resourceVersion"] != "2" else None,
        lambda d: None,
    )
    cache.offer(service("a", 1))
    cache.offer(service("a", 2))

    assert names(cache) == []
