"""A TLS context whose certificate changes while it serves: handshakes from then on have the new."""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator


class LiveTls:
    """The context of the server, and the certificate that is loaded in it."""

    def __init__(self) -> None:
        self.context = _context()
        self._loaded: bytes | None = None

    @property
    def is_loaded(self) -> bool:
        """Say whether there is a certificate to serve with."""
        return self._loaded is not None

    def load(self, chain: bytes) -> bool:
        """Serve with this certificate and key (PEM) from now on; false where it does so already.

        Raises:
            ssl.SSLError: They do not fit together, or are none; what was loaded stays.
        """
        if chain == self._loaded:
            return False
        with _as_file(chain) as path:
            _context().load_cert_chain(path)  # a context that failed half way would serve nobody
            self.context.load_cert_chain(path)
        self._loaded = chain
        return True


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Give the content a path, which OpenSSL wants; where it can be, in memory and on no disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tidegate-tls")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
