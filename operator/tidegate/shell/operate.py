"""`tidegate run`: one operator process from start to end."""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any

import kopf

from tidegate.core.names import FIELD_MANAGER
from tidegate.flow import reconcile
from tidegate.flow.ports import Ref
from tidegate.shell import handlers, prometheus, telemetry
from tidegate.shell.admission import judging, webhook
from tidegate.shell.admission.metrics import AdmissionMetrics
from tidegate.shell.api_server import ApiServer
from tidegate.shell.cluster import KubernetesCluster
from tidegate.shell.cluster_metrics import ClusterMetrics
from tidegate.shell.deployment_metrics import DeploymentMetrics
from tidegate.shell.engines import PodEngines
from tidegate.shell.gates import PodGates
from tidegate.shell.leadership import Leadership
from tidegate.shell.overload_metrics import OverloadMetrics
from tidegate.shell.overseer import Overseer
from tidegate.shell.restart_metrics import RestartMetrics
from tidegate.shell.settings import OperatorSettings
from tidegate.shell.work_queue import WorkQueue

_LOG = logging.getLogger(__name__)
_KOPF_SECONDS = 5.0
"""Before kopf is started again."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        """Return seconds since some moment; never goes back."""
        return time.monotonic()

    def now(self) -> float:
        """Return seconds since 1970, UTC."""
        return time.time()


class Operator:
    """The parts of one process, wired together."""

    def __init__(
        self,
        api: ApiServer,
        settings: OperatorSettings,
        metrics: telemetry.Metrics,
        take_signals: Callable[[], None] = lambda: None,
    ) -> None:
        self._api = api
        self._take_signals = take_signals
        self._settings = settings
        self._pass_settings = settings.for_pass()
        self._metrics = metrics
        self._queue: WorkQueue[Ref] = WorkQueue(self._pass, settings.concurrency)
        self._leadership = Leadership(api, settings.namespace)
        self.cluster = KubernetesCluster(
            api, self._queue.wake, self._may_write, settings.watch_namespaces
        )
        self._engines = PodEngines()
        self._gates = PodGates()
        self._deployment_metrics = DeploymentMetrics(metrics)
        self._restart_metrics = RestartMetrics(metrics.registry)
        metrics.registry.register(
            ClusterMetrics(self.cluster.deployments.all, self.cluster.silences, self._may_write)
        )
        shown = OverloadMetrics(metrics.registry)
        self._prometheus = prometheus.make(settings.prometheus, shown.asked)
        self._evidences = prometheus.make_evidences(settings.prometheus)
        self._overseer = Overseer(
            self.cluster,
            self._prometheus,
            SystemClock(),
            self._pass_settings,
            shown,
            self._queue.wake,
        )
        self._memory = reconcile.Memory()
        self._webhook = (
            webhook.make(
                api, settings, self.cluster, AdmissionMetrics(metrics.registry), self._may_write
            )
            if settings.webhook.enabled
            else None
        )
        self._ended: dict[Ref, tuple[str, str]] = {}
        self._failed = False

    def healthy(self) -> bool:
        """Say whether the process works; false when one of its tasks ended with an error."""
        return not self._failed

    def ready(self) -> bool:
        """Say whether the caches are filled and a review that comes now is answered."""
        return self.cluster.synced() and (self._webhook is None or self._webhook.is_ready())

    async def run(self) -> None:
        """Work until cancelled, or until kopf was told to stop."""
        serving = await telemetry.serve(
            self._settings.http_port, self._metrics, self.healthy, self.ready
        )
        try:
            await _until_one_ends(
                self._lead(),
                self._serve_reviews(),
                *(cache.run(self._api) for cache in self.cluster.caches()),
            )
        except Exception:
            self._failed = True
            raise
        finally:
            if self._settings.leader_election:
                await self._leadership.resign()  # first: another process waits for it
            if self._webhook is not None:
                await self._webhook.close()
            await serving.cleanup()
            await self._engines.close()
            await self._gates.close()
            self._prometheus.close()
            if self._evidences is not None:
                self._evidences.close()

    async def _lead(self) -> None:
        """Lead whenever it is our turn: a lost Lease ends the work, and not the process.

        Its caches stay, so that it is back within seconds of an API server that was away.
        """
        for cache in self.cluster.caches():
            await cache.synced.wait()
        _LOG.info("caches filled", extra={"deployments": len(self.cluster.refs())})
        if not self._settings.leader_election:
            return await self._work()
        while not await self._leadership.lead(self._work):
            _LOG.info("waiting for the Lease again")

    async def _serve_reviews(self) -> None:
        """Serve the webhook, whether this process leads or not; a review needs full caches."""
        for cache in self.cluster.caches():
            await cache.synced.wait()
        if self._webhook is None:
            await asyncio.Event().wait()
        else:
            await self._webhook.run()

    async def _work(self) -> None:
        """What only the leader does; what it remembers from an earlier time is of the past."""
        self._memory = reconcile.Memory()
        self._metrics.leading.set(1)
        self.cluster.wake_all()
        try:
            await _until_one_ends(
                self._watch_by_kopf(),
                self._queue.run(),
                self._resync(),
                self._overseer.run(self._memory),
            )
        finally:
            self._metrics.leading.set(0)
            for ref in self._ended:
                self._deployment_metrics.forget(ref)  # the next leader tells of it
                self._restart_metrics.forget(ref)
            self._ended.clear()

    async def _watch_by_kopf(self) -> None:
        """Have kopf watch; it ends by itself where a signal came just before it gave them back.

        It fails where an API server that comes up refuses it, and is started again.
        """
        configuration = self._api.configuration
        while True:
            registry = handlers.registry(
                self.cluster.deployments,
                self._notice,
                lambda: _connection(configuration),
                self._take_signals,  # kopf takes them at its start, and would end without us
            )
            try:
                await kopf.operator(
                    registry=registry,
                    clusterwide=not self._settings.watch_namespaces,
                    namespaces=self._settings.watch_namespaces,
                    standalone=True,
                )
                return
            except Exception as error:  # whatever it is: our own watches go on meanwhile
                _LOG.warning("kopf failed: %s: %s", type(error).__name__, error)
            await asyncio.sleep(_KOPF_SECONDS)

    def _notice(self, ref: Ref) -> None:
        """Have a deployment looked at of which an event tells."""
        self._queue.wake(ref)
        self._overseer.notice(ref)

    async def _resync(self) -> None:
        """Look at everything again from time to time, spread out, whatever events came."""
        while True:
            await asyncio.sleep(self._settings.resync)
            refs = self.cluster.refs()
            for number, ref in enumerate(refs):
                self._queue.wake_after(ref, self._settings.resync * number / len(refs))

    async def _pass(self, ref: Ref) -> float | None:
        begun = time.monotonic()
        self._metrics.queued.set(len(self._queue))
        result = "error"
        try:
            outcome = await reconcile.reconcile(
                ref,
                self.cluster,
                self._engines,
                self._gates,
                SystemClock(),
                self._pass_settings,
                self._memory,
                self._evidences,
            )
            result = outcome.result
        finally:
            self._metrics.passes.labels(result).inc()
            self._metrics.pass_seconds.observe(time.monotonic() - begun)
        self._note(ref, outcome)
        self._expose(ref)
        return outcome.requeue_seconds

    def _note(self, ref: Ref, outcome: reconcile.Outcome) -> None:
        """Log how a pass ended, and why, when that is otherwise than for the one before."""
        for sentence in outcome.notes:
            _LOG.warning("%s", sentence, extra={"deployment": str(ref)})
        before = self._ended.pop(ref, None)
        now = outcome.result, outcome.why
        if outcome.result != "gone":
            self._ended[ref] = now
        if before != now:
            fields = {"deployment": str(ref), "before": before[0] if before else ""}
            fields |= {"why": outcome.why} if outcome.why else {}
            _LOG.info("pass ended: %s", outcome.result, extra=fields)

    def _expose(self, ref: Ref) -> None:
        document = self.cluster.deployment(ref)
        if document is None:
            self._queue.forget(ref)
            self._deployment_metrics.forget(ref)
            self._restart_metrics.forget(ref)
        else:
            self._deployment_metrics.tell(ref, document.get("status") or {})
            pods, found = self.cluster.owned("Pod", ref), self._memory.causes.get(ref, {})
            self._restart_metrics.tell(ref, pods, found)

    def _may_write(self) -> bool:
        return not self._settings.leader_election or self._leadership.holds()


async def _until_one_ends(*works: Coroutine[Any, Any, None]) -> None:
    """Run coroutines together until one of them ends; end the others, and raise what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in ended:
        task.result()


def _connection(configuration: Any) -> kopf.ConnectionInfo:
    """Give kopf the credentials that the official client has loaded."""
    _, _, token = (configuration.api_key.get("BearerToken") or "").partition(" ")  # "bearer ..."
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=token or None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )


async def run(kubeconfig: str | None, context: str | None, settings: OperatorSettings) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    metrics = telemetry.Metrics()
    api = await ApiServer.connect(kubeconfig, context, metrics.called)
    judging.share_interpreter()
    loop = asyncio.get_running_loop()

    def take_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)

    operator = Operator(api, settings, metrics, take_signals)
    task = asyncio.ensure_future(operator.run())
    take_signals()
    _LOG.info("starting", extra={"component": FIELD_MANAGER, "server": api.configuration.host})
    try:
        await task
    except asyncio.CancelledError:
        _LOG.info("stopped")
    finally:
        await api.close()
