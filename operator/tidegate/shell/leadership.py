"""One leader at a time, by a Lease: the others keep their caches warm and write nothing."""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable

from kubernetes.aio.client import ApiClient
from kubernetes.aio.leaderelection import electionconfig, leaderelection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

_LOG = logging.getLogger(__name__)
LEASE_NAME = "tidegate-operator"
LEASE_SECONDS = 15
_RENEW_DEADLINE_SECONDS = 10
_RETRY_SECONDS = 2


class Leadership:
    """Knows whether this process may write.

    A process that was paused wakes up with an old belief: `holds` compares the monotonic clock
    with the last renewal, so that such a process writes nothing before it has renewed.
    """

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.identity = f"{os.environ.get('HOSTNAME', 'local')}_{uuid.uuid4().hex[:8]}"
        self._renewed = float("-inf")
        self._lock = _RenewalLock(LEASE_NAME, namespace, self.identity, client, self._on_renewal)

    def _on_renewal(self, begun: float) -> None:
        self._renewed = begun

    def holds(self) -> bool:
        """Say whether the Lease is surely ours at this moment."""
        return time.monotonic() < self._renewed + LEASE_SECONDS

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease, run `work`, and return when either ends."""
        ended = asyncio.Event()
        failure: list[BaseException] = []

        async def leading() -> None:
            _LOG.info("leading", extra={"identity": self.identity})
            try:
                await work()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                failure.append(error)
            finally:
                ended.set()

        async def stopped() -> None:
            ended.set()

        election = leaderelection.LeaderElection(
            electionconfig.Config(
                self._lock,
                lease_duration=LEASE_SECONDS,
                renew_deadline=_RENEW_DEADLINE_SECONDS,
                retry_period=_RETRY_SECONDS,
                onstarted_leading=leading,
                onstopped_leading=stopped,
            )
        )
        running = asyncio.ensure_future(election.run())
        waiting = asyncio.ensure_future(ended.wait())
        try:
            await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()
            waiting.cancel()
        if failure:
            raise failure[0]
        _LOG.warning("no longer leading", extra={"identity": self.identity})


class _RenewalLock(LeaseLock):
    """The library's Lease lock, telling when a renewal that succeeded was begun."""

    def __init__(
        self,
        name: str,
        namespace: str,
        identity: str,
        client: ApiClient,
        renewed: Callable[[float], None],
    ) -> None:
        super().__init__(name, namespace, identity, client)
        self._renewed = renewed

    async def create(
        self, name: str, namespace: str, election_record: LeaderElectionRecord
    ) -> bool:
        begun = time.monotonic()
        done: bool = await super().create(name, namespace, election_record)
        if done:
            self._renewed(begun)
        return done

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        begun = time.monotonic()
        done: bool = await super().update(name, namespace, updated_record)
        if done:
            self._renewed(begun)
        return done
