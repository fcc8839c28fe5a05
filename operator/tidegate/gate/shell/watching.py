"""A few objects kept by list and watch: what is held is what the API server last told."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping

from tidegate.gate.shell.api_server import ApiServer, Document, Expired, NoAnswer

_LOG = logging.getLogger(__name__)
_WATCH_SECONDS = 240
"""The server ends a watch after about this; the next one goes on from the last version."""
_RETRY_SECONDS = (0.25, 10.0)

Changed = Callable[[Mapping[str, Document]], None]


class Watch:
    """The objects behind one path and query, by name.

    `changed` hears of all of them after each list and each event; never before the first list.
    What vanished while the watch was broken is gone after the next list.
    """

    def __init__(self, path: str, query: Mapping[str, str], changed: Changed) -> None:
        self.heard_at: float | None = None
        """When the API server was last heard, by the monotonic clock."""
        self._path = path
        self._query = dict(query)
        self._changed = changed
        self._objects: dict[str, Document] = {}
        self._version: str | None = None
        self._delay = _RETRY_SECONDS[0]

    async def run(self, api: ApiServer) -> None:
        """Keep the objects until cancelled; every failure is retried."""
        while True:
            try:
                if self._version is None:
                    await self._list(api)
                await self._follow(api)
            except Expired:
                self._version = None
                await self._pause()
            except NoAnswer as error:
                _LOG.warning("watch of %s broke off: %s", self._path, error)
                await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._delay * (0.5 + random.random() / 2))
        self._delay = min(self._delay * 2, _RETRY_SECONDS[1])

    async def _list(self, api: ApiServer) -> None:
        answer = await api.list(self._path, self._query)
        try:
            objects = {_name(item): item for item in answer["items"]}
            version = str(answer["metadata"]["resourceVersion"])
        except (KeyError, TypeError) as error:
            raise NoAnswer("the list is malformed") from error
        self._objects, self._version = objects, version
        self.heard_at = time.monotonic()
        self._changed(self._objects)

    async def _follow(self, api: ApiServer) -> None:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(_WATCH_SECONDS + random.randrange(60)),
        }
        async for event in api.watch(self._path, query):
            self._take(event)
            self._delay = _RETRY_SECONDS[0]

    def _take(self, event: Document) -> None:
        try:
            kind, item = event["type"], event["object"]
            version = str(item["metadata"]["resourceVersion"])
            match kind:
                case "ADDED" | "MODIFIED":
                    self._objects[_name(item)] = item
                case "DELETED":
                    self._objects.pop(_name(item), None)
        except (KeyError, TypeError) as error:
            raise NoAnswer("an event is malformed") from error
        self._version = version
        self.heard_at = time.monotonic()
        if kind != "BOOKMARK":
            self._changed(self._objects)


def _name(item: Document) -> str:
    return str(item["metadata"]["name"])
