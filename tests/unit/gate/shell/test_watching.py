"""What is held is what the API server last told, whatever happens to the connection."""

import asyncio
import contextlib

import pytest
from tests.unit.gate.shell.scripted_api import until

from tidegate.gate.shell import watching
from tidegate.gate.shell.watching import Watch


def thing(name, version, value="x"):
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value}


def event(kind, item):
    return {"type": kind, "object": item}


def expired(code=410):
    return event("ERROR", {"kind": "Status", "code": code, "message": "too old"})


@contextlib.asynccontextmanager
async def watch(api, monkeypatch, query=None):
    """A running watch, and the states that it told."""
    monkeypatch.setattr(watching, "_RETRY_SECONDS", (0.01, 0.05))
    told = []
    made = Watch(
        "/api/v1/namespaces/chat/configmaps",
        query or {"fieldSelector": "metadata.name=qwen-gate"},
        lambda objects: told.append({name: item["value"] for name, item in objects.items()}),
    )
    task = asyncio.create_task(made.run(api))
    try:
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_lists_once_and_then_follows(server, api, monkeypatch):
    server.items = [thing("a", 1)]
    server.watches = [[event("MODIFIED", thing("a", 11, "y")), event("ADDED", thing("b", 12))]]
    async with watch(api, monkeypatch) as told:
        await until(lambda: told[-1:] == [{"a": "y", "b": "x"}])
        await until(lambda: len(server.asked) >= 3)

    first, *watches = server.asked
    assert first == {"fieldSelector": "metadata.name=qwen-gate"}
    assert [query["resourceVersion"] for query in watches[:2]] == ["10", "12"]
    assert all(240 <= int(query["timeoutSeconds"]) < 300 for query in watches)


async def test_what_is_deleted_is_gone(server, api, monkeypatch):
    server.items = [thing("a", 1), thing("b", 2)]
    server.watches = [[event("DELETED", thing("a", 11))]]
    async with watch(api, monkeypatch) as told:
        await until(lambda: told[-1:] == [{"b": "x"}])


async def test_a_bookmark_moves_the_version_and_tells_nothing(server, api, monkeypatch):
    bookmark = {"metadata": {"resourceVersion": "99"}}
    server.watches = [[event("BOOKMARK", bookmark)]]
    async with watch(api, monkeypatch) as told:
        await until(lambda: len(server.asked) >= 3)

    assert server.asked[2]["resourceVersion"] == "99"
    assert told == [{}]


@pytest.mark.parametrize("script", [410, [expired()]])
async def test_after_410_it_lists_anew_and_what_vanished_meanwhile_is_gone(
    server, api, monkeypatch, script
):
    server.earlier = [("10", [thing("a", 1), thing("b", 2)])]
    server.items, server.version = [thing("b", 2)], "50"
    server.watches = [script]
    async with watch(api, monkeypatch) as told:
        await until(lambda: len(server.asked) >= 4)

    assert told == [{"a": "x", "b": "x"}, {"b": "x"}]
    assert server.asked[3]["resourceVersion"] == "50"


@pytest.mark.parametrize(
    "script",
    [
        500,
        403,
        [expired(500)],
        [b"{broken\n"],
        [b"[]\n"],
        [b'{"type":"ADDED"}\n'],
        [b'{"type":"ADDED","object":{"metadata":{"name":"z"}}}\n'],
        [b'{"type":"ADDED","obj'],
    ],
)
async def test_a_watch_that_breaks_off_is_taken_up_again_where_it_was(
    server, api, monkeypatch, script
):
    server.items = [thing("a", 1)]
    server.watches = [script, [event("MODIFIED", thing("a", 11, "y"))]]
    async with watch(api, monkeypatch) as told:
        await until(lambda: told[-1:] == [{"a": "y"}])

    assert told == [{"a": "x"}, {"a": "y"}]
    assert server.asked[2]["resourceVersion"] == "10"


async def test_a_connection_that_is_silent_for_too_long_is_given_up(server, api, monkeypatch):
    async with watch(api, monkeypatch):
        await until(lambda: len(server.asked) >= 3)


async def test_an_event_of_a_megabyte_is_read(server, api, monkeypatch):
    server.watches = [[event("ADDED", thing("a", 11, "y" * 2**20))]]
    async with watch(api, monkeypatch) as told:
        await until(lambda: told[-1:] == [{"a": "y" * 2**20}])


async def test_while_the_api_server_is_away_what_is_held_stays(server, api, monkeypatch):
    server.items = [thing("a", 1)]
    async with watch(api, monkeypatch) as told:
        await until(lambda: told)
        port = server.port
        await server.stop()
        await asyncio.sleep(0.3)
        assert told == [{"a": "x"}]
        server.watches = [[event("MODIFIED", thing("a", 11, "y"))]]
        await server.start(port)
        await until(lambda: told[-1:] == [{"a": "y"}])


async def test_a_list_that_fails_says_nothing_of_what_there_is(server, api, monkeypatch):
    server.list_status = 503
    async with watch(api, monkeypatch) as told:
        await until(lambda: len(server.asked) >= 3)

    assert told == []


async def test_the_token_is_read_anew_since_kubernetes_renews_it(
    server, api, monkeypatch, tmp_path
):
    server.watches = [[], []]
    async with watch(api, monkeypatch):
        await until(lambda: len(server.tokens) >= 2)
        (tmp_path / "token").write_text("second")
        await until(lambda: server.tokens[-1] == "Bearer second")

    assert server.tokens[0] == "Bearer first"


async def test_an_account_that_cannot_be_read_is_a_failure_like_others(
    server, api, monkeypatch, tmp_path
):
    (tmp_path / "token").unlink()
    async with watch(api, monkeypatch) as told:
        await asyncio.sleep(0.1)
        (tmp_path / "token").write_text("late")
        await until(lambda: told)
