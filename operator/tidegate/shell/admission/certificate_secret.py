"""The Secret that all replicas share their certificates by; whoever comes first makes it."""

import base64
import binascii
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.flow.ports import Document
from tidegate.shell.admission.certificates import Held, Unreadable
from tidegate.shell.api_server import ApiServer, NoAnswer, message_of
from tidegate.shell.resources import BY_KIND, WEBHOOK_SECRET

_LOG = logging.getLogger(__name__)
_CERTIFICATE = re.compile(
    rb"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n"
)


@dataclass(frozen=True)
class Stored:
    """What is stored, and the object's version; `held` is None where that cannot be read."""

    held: Held | None
    document: Document


class CertificateSecret:
    """Reads and writes the Secret; another's write in between makes ours fail, and is read."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def read(self) -> Stored | None:
        """Return what is stored, None where nothing is.

        Raises:
            NoAnswer: It cannot be read; the message says why.
        """
        path = BY_KIND["Secret"].path(self._namespace, WEBHOOK_SECRET)
        status, answer = await self._api.call("GET", path)
        if status == 404:
            return None
        if status >= 400:
            raise NoAnswer(f"the Secret {WEBHOOK_SECRET}: {status}: {message_of(answer)}")
        try:
            return Stored(_held(answer.get("data") or {}), answer)
        except Unreadable as error:
            _LOG.warning("certificates are unreadable and are made anew: %s", error)
            return Stored(None, answer)

    async def write(self, held: Held, before: Stored | None) -> bool:
        """Store it in place of what was read; false where somebody else was first.

        Raises:
            NoAnswer: It cannot be written; the message says why.
        """
        document = _document(held, self._namespace, before)
        resource = BY_KIND["Secret"]
        if before is None:
            path = resource.path(self._namespace)
            status, answer = await self._api.call("POST", path, body=document, verb="create")
        else:
            path = resource.path(self._namespace, WEBHOOK_SECRET)
            status, answer = await self._api.call("PUT", path, body=document, verb="update")
        if status == 409 or (status == 404 and before is not None):
            return False
        if status >= 400:
            raise NoAnswer(f"the Secret {WEBHOOK_SECRET}: {status}: {message_of(answer)}")
        return True


def _held(data: Mapping[str, str]) -> Held:
    try:
        found = {key: base64.b64decode(text, validate=True) for key, text in data.items()}
        authorities = tuple(_CERTIFICATE.findall(found["ca.crt"]))
        held = Held(authorities, found["ca.key"], found["tls.crt"], found["tls.key"])
    except (KeyError, binascii.Error) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    if not authorities:
        raise Unreadable("ca.crt has no certificate")
    return held


def _document(held: Held, namespace: str, before: Stored | None) -> Document:
    data = {
        "ca.crt": held.bundle,
        "ca.key": held.authority_key,
        "tls.crt": held.certificate,
        "tls.key": held.key,
    }
    metadata: Document = {"name": WEBHOOK_SECRET, "namespace": namespace}
    kind = "kubernetes.io/tls"
    if before is not None:
        metadata = before.document["metadata"]  # with its version and whatever labels it has
        kind = before.document.get("type", kind)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": kind,
        "data": {key: base64.b64encode(pem).decode() for key, pem in data.items()},
    }
