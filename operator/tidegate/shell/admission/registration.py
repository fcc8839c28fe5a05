"""The webhook configurations: whether the API server trusts our authorities, and making it so."""

import base64
import logging
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.flow.ports import Document
from tidegate.shell.api_server import ApiServer, NoAnswer, message_of
from tidegate.shell.resources import BY_KIND

_LOG = logging.getLogger(__name__)
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass(frozen=True)
class Registration:
    """Two configurations of a name.

    Only the leader, as `may_write` says, replaces a bundle. One that is missing is filled in by any
    replica: during an upgrade the leader may be of a version that knows no webhook.
    """

    api: ApiServer
    name: str
    may_write: Callable[[], bool]

    async def trusts(self, bundle: bytes) -> bool:
        """Say whether every configuration has this bundle; the leader sees to it.

        One that is not there trusts nobody and asks nobody: the webhook is switched off.

        Raises:
            NoAnswer: They cannot be read or written.
        """
        told = [await self._trusts(kind, base64.b64encode(bundle).decode()) for kind in _KINDS]
        return all(told)

    async def _trusts(self, kind: str, bundle: str) -> bool:
        path = BY_KIND[kind].path(name=self.name)
        status, answer = await self.api.call("GET", path)
        if status == 404:
            return True
        if status >= 400:
            raise NoAnswer(f"{kind} {self.name}: {status}: {message_of(answer)}")
        told = {
            hook["name"]: hook["clientConfig"].get("caBundle") or ""
            for hook in answer.get("webhooks") or ()
        }
        wrong = [name for name, trusted in told.items() if trusted != bundle]
        if not wrong:
            return True
        if any(told[name] for name in wrong) and not self.may_write():
            return False
        await self._write(kind, path, answer, wrong, bundle)
        return True

    async def _write(
        self, kind: str, path: str, seen: Document, hooks: list[str], bundle: str
    ) -> None:
        patch = {
            "metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]},
            "webhooks": [{"name": name, "clientConfig": {"caBundle": bundle}} for name in hooks],
        }
        status, answer = await self.api.call(
            "PATCH",
            path,
            body=patch,
            content_type="application/strategic-merge-patch+json",
            verb="patch",
        )
        if status >= 400:
            raise NoAnswer(f"{kind} {self.name}: {status}: {message_of(answer)}")
        _LOG.info("the API server is told which authorities to trust", extra={"kind": kind})
