"""The webhook of one replica, from start to end: it keeps its certificate, and then serves."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from tidegate.shell.admission.access import Access
from tidegate.shell.admission.certificate_secret import CertificateSecret
from tidegate.shell.admission.keeper import FileKeeper, Keeper, SecretKeeper
from tidegate.shell.admission.live_tls import LiveTls
from tidegate.shell.admission.metrics import AdmissionMetrics
from tidegate.shell.admission.registration import Registration
from tidegate.shell.admission.seen import Seen
from tidegate.shell.admission.server import Server
from tidegate.shell.admission.verdict import Reviewer
from tidegate.shell.api_server import ApiServer, NoAnswer
from tidegate.shell.cluster import KubernetesCluster
from tidegate.shell.settings import OperatorSettings

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 30.0
"""Between looks at the certificates and the configurations."""
_RETRY_SECONDS = 1.0


class Webhook:
    """Serves reviews as soon as there is a certificate.

    `is_ready` asks for more: that API servers trust the certificate. It is never taken back: a
    replica that serves is better than none.
    """

    def __init__(
        self,
        server: Server,
        keeper: Keeper,
        metrics: AdmissionMetrics,
        port: int,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._server = server
        self._keeper = keeper
        self._metrics = metrics
        self._port = port
        self._look_seconds = look_seconds
        self._tls = LiveTls()
        self._runner: web.AppRunner | None = None
        self._is_trusted = False
        self._trouble = ""

    def is_ready(self) -> bool:
        """Say whether a review that comes now is answered."""
        return self._runner is not None and self._is_trusted

    async def run(self) -> None:
        """Work until cancelled; the server goes on until `close`.

        Raises:
            OSError: The port cannot be had.
        """
        while True:
            await self._look()
            if self._runner is None and self._tls.is_loaded:
                self._runner = await self._server.start(self._port, self._tls.context)
                _LOG.info("the webhook serves", extra={"port": self._port})
            self._metrics.serving.set(self.is_ready())
            await asyncio.sleep(self._look_seconds if self.is_ready() else _RETRY_SECONDS)

    async def close(self) -> None:
        """Answer what has come, and stop."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._server.close()

    async def _look(self) -> None:
        trouble = ""
        try:
            self._is_trusted = await self._keeper.look(self._tls) or self._is_trusted
        except NoAnswer as error:
            trouble = str(error)
        if trouble and trouble != self._trouble:
            _LOG.warning("the webhook's certificate: %s", trouble)
        self._trouble = trouble
        self._metrics.certificate.expires = self._keeper.expires


def make(
    api: ApiServer,
    settings: OperatorSettings,
    cluster: KubernetesCluster,
    metrics: AdmissionMetrics,
    may_write: Callable[[], bool],
) -> Webhook:
    """Return the webhook of a process, as its settings say."""
    asked = settings.webhook
    of_pass = settings.for_pass()
    seen = Seen(
        cluster,
        of_pass.admission,
        of_pass.node_classes,
        of_pass.class_grace_seconds,
        can_judge=settings.prometheus.url is not None,
    )
    keeper: Keeper
    if asked.certificate_folder is not None:
        keeper = FileKeeper(Path(asked.certificate_folder))
    else:
        keeper = SecretKeeper(
            CertificateSecret(api, settings.namespace),
            Registration(api, asked.configuration, may_write),
            [f"{asked.service}.{settings.namespace}.svc", *asked.hosts],
        )
    server = Server(Reviewer(seen.facts, Access(api)), metrics)
    return Webhook(server, keeper, metrics, asked.port)
