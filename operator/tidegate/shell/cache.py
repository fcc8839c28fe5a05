"""A cache of one kind, kept by list and watch: what it holds is what the API server last told.

Unlike kopf's indices it forgets what vanished while the watch was broken (a relist prunes), and it
takes our own writes at once, so a pass does not act on what it has itself replaced.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from tidegate.core.names import LABEL_DEPLOYMENT
from tidegate.flow.ports import Document, Ref
from tidegate.shell.api_server import ApiServer, NoAnswer, message_of
from tidegate.shell.resources import Resource

_LOG = logging.getLogger(__name__)
_WATCH_SECONDS = 240
"""The server ends a watch after about this; the next one goes on from the last version."""
_SILENCE_SECONDS = 90
"""The server sends a bookmark every minute: a connection silent for longer is half open."""
_PAGE = 500
_RETRY_SECONDS = (1.0, 10.0)
"""Shortest and longest wait before the next try: how long an API server that is back goes unseen.
Each wait is cut by up to half, by chance, so that caches do not come all at once."""

Key = tuple[str, str]


class Expired(Exception):
    """The server no longer knows the version that the watch was to go on from."""


class Cache:
    """The objects of one kind by (namespace, name), as `keep` cut them down.

    `keep` returns what is to be held of an object, or None for nothing. `changed` hears of each
    object that came, changed or went, after the cache has it. With a `namespace` it holds the
    objects of that one alone.
    """

    def __init__(
        self,
        resource: Resource,
        keep: Callable[[Document], Document | None],
        changed: Callable[[Document], None],
        selector: str | None = None,
        namespace: str | None = None,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.synced = asyncio.Event()
        self._keep = keep
        self._changed = changed
        self._selector = selector
        self._objects: dict[Key, Document] = {}
        self._by_deployment: dict[Ref, dict[Key, Document]] = {}
        self._heard_at = time.monotonic()
        self._at = 0  # the version up to which the server's lists and watches have told all

    def all(self) -> Iterable[Document]:
        """Return every object."""
        return self._objects.values()

    def get(self, namespace: str, name: str) -> Document | None:
        """Return one object."""
        return self._objects.get((namespace, name))

    def of(self, ref: Ref) -> list[Document]:
        """Return the objects that carry a deployment's label."""
        return list(self._by_deployment.get(ref, {}).values())

    def offer(self, document: Document) -> None:
        """Take an object that came by another way (our own write), unless the cache knows better.

        One that is not held, and not newer than what the watch has told, was deleted since.
        """
        if _key(document) in self._objects or version(document) > self._at:
            self._put(document)

    def silence_seconds(self) -> float:
        """Return how long ago the server was heard last, by a list or on the watch."""
        return time.monotonic() - self._heard_at

    async def run(self, api: ApiServer) -> None:
        """Keep the cache until cancelled; every failure is retried."""
        is_listed = False
        delay = _RETRY_SECONDS[0]
        broke_at, plural = self._at, self.resource.plural
        while True:
            try:
                if not is_listed:
                    await self._list(api)
                    is_listed = True
                    delay = _RETRY_SECONDS[0]
                    self.synced.set()
                await self._watch(api)
                delay = _RETRY_SECONDS[0]
            except Expired:
                is_listed = False
            except NoAnswer as error:
                went_on, broke_at = self._at != broke_at, self._at
                if went_on:  # as connections end at times: the next one goes on from here
                    delay = _RETRY_SECONDS[0]
                    _LOG.info("watch of %s ended, and is opened again: %s", plural, error)
                else:
                    _LOG.warning("watch of %s broke off: %s", plural, error)
                await asyncio.sleep(delay * (0.5 + random.random() / 2))
                delay = min(delay * 2, _RETRY_SECONDS[1])

    async def _list(self, api: ApiServer) -> None:
        """Read everything, and drop what is gone."""
        seen: set[Key] = set()
        query = {"limit": str(_PAGE), **self._query()}
        while True:
            status, answer = await api.call(
                "GET", self.resource.path(self.namespace), query=query, verb="list"
            )
            if status == 410 and "continue" in query:
                query.pop("continue")
                seen.clear()
                continue
            if status >= 400:
                raise NoAnswer(f"list: {status}: {message_of(answer)}")
            self._heard_at = time.monotonic()
            for document in answer["items"]:
                document.setdefault("kind", self.resource.kind)
                document.setdefault("apiVersion", self.resource.api_version)
                seen.add(_key(document))
                self._put(document)
            token = answer["metadata"].get("continue")
            if not token:
                break
            query["continue"] = token
        at = version(answer)
        for key, held in list(self._objects.items()):
            if key not in seen and version(held) <= at:  # what is newer was offered meanwhile
                self._drop(key)
        self._at = at

    async def _watch(self, api: ApiServer) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._at),
            "timeoutSeconds": str(_WATCH_SECONDS + random.randrange(60)),
            **self._query(),
        }
        async for event in api.lines(self.resource.path(self.namespace), query, _SILENCE_SECONDS):
            self._heard_at = time.monotonic()
            document = event["object"]
            match event["type"]:
                case "ADDED" | "MODIFIED":
                    self._put(document)
                case "DELETED":
                    self._drop_by(document)
                case "ERROR" if document.get("code") == 410:
                    raise Expired
                case "ERROR":
                    raise NoAnswer(message_of(document))
            self._at = version(document)

    def _query(self) -> dict[str, str]:
        return {"labelSelector": self._selector} if self._selector else {}

    def _put(self, document: Document) -> None:
        key = _key(document)
        kept = self._keep(document)
        if kept is None:
            self._drop_by(document)
            return
        held = self._objects.get(key)
        if held is not None and version(held) >= version(kept):
            return
        self._unindex(key, held)
        self._objects[key] = kept
        ref = deployment_of(kept)
        if ref is not None:
            self._by_deployment.setdefault(ref, {})[key] = kept
        self._changed(kept)

    def _drop_by(self, document: Document) -> None:
        """Drop what is held of an object, unless that is newer: another object of the name."""
        held = self._objects.get(_key(document))
        if held is not None and version(held) <= version(document):
            self._drop(_key(document))

    def _drop(self, key: Key) -> None:
        held = self._objects.pop(key, None)
        self._unindex(key, held)
        if held is not None:
            self._changed(held)

    def _unindex(self, key: Key, held: Document | None) -> None:
        ref = deployment_of(held) if held else None
        if ref is not None and ref in self._by_deployment:
            self._by_deployment[ref].pop(key, None)
            if not self._by_deployment[ref]:
                del self._by_deployment[ref]


def version(document: Document) -> int:
    """Return the resourceVersion as the number that it has been declared to be."""
    return int(document["metadata"]["resourceVersion"])


def deployment_of(document: Document) -> Ref | None:
    """Return the LLMDeployment that an object's label names."""
    name = (document["metadata"].get("labels") or {}).get(LABEL_DEPLOYMENT)
    return Ref(document["metadata"].get("namespace", ""), name) if name else None


def without_managed_fields(document: Document) -> Document:
    """Return a document without the part that is largest and never read."""
    metadata: dict[str, Any] = {
        key: value for key, value in document["metadata"].items() if key != "managedFields"
    }
    return {**document, "metadata": metadata}


def _key(document: Document) -> Key:
    return document["metadata"].get("namespace", ""), document["metadata"]["name"]
