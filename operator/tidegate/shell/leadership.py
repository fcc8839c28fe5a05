"""One leader at a time, by a Lease: the others keep their caches warm and write nothing.

The official client's own lock cannot create a Lease (37.0 passes an argument of a wrong type) and
writes local times as UTC, so the rule of client-go is written here, over the same API: a Lease is
taken when it has no holder, or when it has not changed for its duration by *our* monotonic clock,
so clocks of machines need not agree.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tidegate.flow.ports import Document
from tidegate.shell.api_server import ApiServer, NoAnswer
from tidegate.shell.resources import BY_KIND

_LOG = logging.getLogger(__name__)
LEASE_NAME = "tidegate-operator"
_RESIGN_SECONDS = 3.0
"""Longest that an end waits for the Lease to be given up: it runs out by itself, too."""


@dataclass(frozen=True)
class LeaseTimes:
    """How long a Lease lasts, when a leader that cannot renew gives up, and how often it tries."""

    lease_seconds: float = 15
    renew_deadline_seconds: float = 10
    retry_seconds: float = 2


class Leadership:
    """Knows whether this process may write.

    A process that was paused wakes up with an old belief: `holds` compares the monotonic clock
    with the begin of the last renewal, so such a process writes nothing before it has renewed.
    """

    def __init__(self, api: ApiServer, namespace: str, times: LeaseTimes | None = None) -> None:
        self.identity = f"{os.environ.get('HOSTNAME', 'local')}_{uuid.uuid4().hex[:8]}"
        self._api = api
        self._namespace = namespace
        self._times = times or LeaseTimes()
        self._renewed = float("-inf")
        self._seen: Document | None = None
        self._seen_at = float("-inf")

    def holds(self) -> bool:
        """Say whether the Lease is surely ours at this moment."""
        return time.monotonic() < self._renewed + self._times.lease_seconds

    async def lead(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Wait for the Lease and run `work` until it ends or the Lease is lost.

        Returns:
            Whether the work ended by itself; if not it was cancelled, and may be begun again.
        """
        while not await self._try():
            await asyncio.sleep(self._times.retry_seconds)
        _LOG.info("leading", extra={"identity": self.identity})
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew())
        try:
            await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = [task for task in (working, renewing) if task.done()]
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
        for task in ended:
            task.result()
        _LOG.warning("no longer leading", extra={"identity": self.identity})
        return working in ended

    async def resign(self) -> None:
        """Give the Lease up, so that the next leader need not wait for it to run out."""
        if not self.holds() or self._seen is None:
            return
        self._renewed = float("-inf")
        lease = {**self._seen, "spec": {**self._seen["spec"], "holderIdentity": ""}}
        try:
            async with asyncio.timeout(_RESIGN_SECONDS):
                await self._put(lease)
        except (NoAnswer, TimeoutError) as error:
            reason = str(error) or f"no answer in {_RESIGN_SECONDS:.0f} s"
            _LOG.warning("lease not given up: %s", reason, extra={"identity": self.identity})

    async def _renew(self) -> None:
        """Renew until it cannot be done within the deadline."""
        while True:
            await asyncio.sleep(self._times.retry_seconds)
            renewed = await self._try()
            late = time.monotonic() > self._renewed + self._times.renew_deadline_seconds
            if not renewed and late:
                return

    async def _try(self) -> bool:
        """Take or renew the Lease once; true when it is ours."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self._times.renew_deadline_seconds / 2):  # twice a deadline
                done = await self._take()
        except (NoAnswer, TimeoutError) as error:
            _LOG.warning("lease not renewed: %s", error, extra={"identity": self.identity})
            return False
        if done:
            self._renewed = begun
        return done

    async def _take(self) -> bool:
        path = BY_KIND["Lease"].path(self._namespace, LEASE_NAME)
        status, lease = await self._api.call("GET", path)
        if status == 404:
            return await self._create()
        if status >= 400:
            _LOG.warning("lease not read: %s", lease, extra={"status": status})
            return False
        if self._seen is None or _version(lease) != _version(self._seen):
            self._seen, self._seen_at = lease, time.monotonic()
        holder = lease["spec"].get("holderIdentity")
        duration = lease["spec"].get("leaseDurationSeconds") or self._times.lease_seconds
        alive = time.monotonic() < self._seen_at + duration
        if holder and holder != self.identity and alive:
            return False
        taken_over = holder != self.identity
        return await self._put({**lease, "spec": self._spec(lease["spec"], taken_over)})

    async def _create(self) -> bool:
        lease = {
            "apiVersion": BY_KIND["Lease"].api_version,
            "kind": "Lease",
            "metadata": {"name": LEASE_NAME, "namespace": self._namespace},
            "spec": self._spec({}, True),
        }
        path = BY_KIND["Lease"].path(self._namespace)
        return self._stored(*await self._api.call("POST", path, body=lease, verb="create"))

    async def _put(self, lease: Document) -> bool:
        """Replace the Lease as it was read; another's write in between makes this one fail."""
        path = BY_KIND["Lease"].path(self._namespace, LEASE_NAME)
        return self._stored(*await self._api.call("PUT", path, body=lease, verb="update"))

    def _stored(self, status: int, lease: Document) -> bool:
        if status >= 400:
            if status != 409:
                _LOG.warning("lease not written: %s", lease, extra={"status": status})
            return False
        self._seen, self._seen_at = lease, time.monotonic()
        return True

    def _spec(self, before: Document, taken_over: bool) -> Document:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.lease_seconds)),
            "acquireTime": now if taken_over else before.get("acquireTime", now),
            "renewTime": now,
        }
        return spec | {"leaseTransitions": before.get("leaseTransitions", 0) + taken_over}


def _version(lease: Document) -> str:
    return str(lease["metadata"]["resourceVersion"])
