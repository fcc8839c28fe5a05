"""Keeps a certificate in the server: from the shared Secret, or from files that others renew."""

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tidegate.shell.admission import certificates
from tidegate.shell.admission.certificate_secret import CertificateSecret
from tidegate.shell.admission.certificates import Held, Lifetimes, Unreadable
from tidegate.shell.admission.live_tls import LiveTls
from tidegate.shell.admission.registration import Registration
from tidegate.shell.api_server import NoAnswer

_LOG = logging.getLogger(__name__)
_TRIES = 5
"""Of one look, when others write at the same time."""


class Keeper(Protocol):
    """Looks after the certificate, once in every period."""

    @property
    def expires(self) -> float | None:
        """Unix seconds at which the certificate ends, None while there is none."""

    async def look(self, tls: LiveTls) -> bool:
        """See that the server has the right certificate; say whether API servers trust it.

        Raises:
            NoAnswer: That could not be done; the message says why.
        """


@dataclass
class SecretKeeper:
    """Certificates of our own. `names` are those by which API servers reach the replicas."""

    secret: CertificateSecret
    registration: Registration
    names: Sequence[str]
    lifetimes: Lifetimes = field(default_factory=Lifetimes)
    now: Callable[[], float] = time.time
    expires: float | None = None

    async def look(self, tls: LiveTls) -> bool:
        """Read or make what is held, load it, publish its authorities, renew what is due."""
        held = await self._stored(is_published=False)
        self._load(held, tls)
        is_published = await self.registration.trusts(held.bundle)
        if is_published:
            newer = await self._stored(is_published=True, published=held)
            self._load(newer, tls)
        return is_published

    async def _stored(self, *, is_published: bool, published: Held | None = None) -> Held:
        """Return what is stored, after renewing it where that is due."""
        for _ in range(_TRIES):
            stored = await self.secret.read()
            held = stored.held if stored else None
            wanted = self._wanted(held, is_published=is_published and held == published)
            if held == wanted:
                return wanted
            if await self.secret.write(wanted, stored):
                _LOG.info("certificates are renewed", extra={"made": held is None})
                return wanted
        raise NoAnswer("the certificates are written by others all the time")

    def _wanted(self, held: Held | None, *, is_published: bool) -> Held:
        now = self.now()
        if held is None:
            return certificates.first(self.names, now, self.lifetimes)
        try:
            return certificates.renewed(
                held, self.names, now, self.lifetimes, is_published=is_published
            )
        except Unreadable as error:
            _LOG.warning("certificates are unreadable and are made anew: %s", error)
            return certificates.first(self.names, now, self.lifetimes)

    def _load(self, held: Held, tls: LiveTls) -> None:
        _load(tls, held.chain)
        self.expires = held.expires


@dataclass
class FileKeeper:
    """A certificate that others renew, such as cert-manager; they keep `caBundle`, too."""

    folder: Path
    expires: float | None = None

    async def look(self, tls: LiveTls) -> bool:
        """Load what the files hold now."""
        try:
            certificate = (self.folder / "tls.crt").read_bytes()
            key = (self.folder / "tls.key").read_bytes()
            _load(tls, certificate + b"\n" + key)
            self.expires = certificates.expiry(certificate)
        except (OSError, ValueError) as error:
            raise NoAnswer(f"the certificate in {self.folder}: {error}") from error
        return True


def _load(tls: LiveTls, chain: bytes) -> None:
    try:
        if tls.load(chain):
            _LOG.info("the webhook has a certificate")
    except ssl.SSLError as error:  # half written, or not ours: the one that is loaded goes on
        raise NoAnswer(f"the certificate and its key cannot be loaded: {error}") from error
